-- A part of other scripts: writes notes, and lets the oldest others go where there are too many.
--
-- `given(n)` gives the fields of a note: key, created, updated, version or "" for the next one, its
-- bytes of metadata and of all texts, "in" the record, "apart" or "sent" apart before, the texts or
-- "", its vector, "sent" or "".

local FIELDS, PIECE = 8, 300

-- The records that stand under the keys of so many notes, false where there is none.
local function standing_of(given, count)
  local standing = {}
  for first = 1, count, UNPACKED do
    local keys = {}
    for index = first, math.min(count, first + UNPACKED - 1) do keys[#keys + 1] = (given(index)) end
    for _, record in ipairs(redis.call('HMGET', notes, unpack(keys))) do
      standing[#standing + 1] = record
    end
  end
  return standing
end

-- Whether a note was written by the put whose ids begin so.
local function is_of(name, key)
  local id = string.match(redis.call('HGET', notes, key) or '', '^[^\n]* (%S+)\n')
  return id ~= nil and string.sub(id, 1, #name) == name
end

-- Writes `count` notes of the put `of`: its token, how many of its notes were written before, the
-- generation that takes the vectors or "", the one to which they were sent or "", and the cap on
-- the namespace, 0 for none. Tells, behind what `reply` holds, "indexed" or "-", then for each note
-- "new", "old" or "kept" (an older version than the one that stands) and its version. Its first
-- write is one that a full server refuses.
local function write(reply, given, count, standing, of)
  local name, mine = of.token .. '-', of.mine
  local found = redis.call('HMGET', state, 'serial', 'top')
  local serial, top = tonumber(found[1] or '0'), tonumber(found[2] or '0')
  redis.call('HSET', state, 'serial', text(serial + count))
  if redis.call('HLEN', notes) == 0 then
    redis.call('HSET', state, 'epoch', of.token)
    redis.call('ZADD', namespaces, '0', namespace)
    redis.call('UNLINK', order, changes, gone)  -- where a server that evicts left them
  end
  local floor = tonumber(redis.call('HGET', memory, 'floor') or '0')
  local created_here = 0
  local is_indexed = mine ~= '' and redis.call('EXISTS', indexes[mine]) == 1
  reply[#reply + 1] = is_indexed and 'indexed' or '-'
  local records, changed, placed, embedded, keys, over, with = {}, {}, {}, {}, {}, {}, 0

  local function flush()
    if #keys == 0 then return end
    redis.call('HSET', notes, unpack(records))
    redis.call('ZADD', changes, unpack(changed))
    redis.call('ZREM', gone, unpack(keys))
    if #placed > 0 then redis.call('ZADD', order, unpack(placed)) end
    if #embedded > 0 then redis.call('HSET', vectors[mine], unpack(embedded)) end
    if mine ~= '' then count_vectors(mine, with) end
    release(over)
    records, changed, placed, embedded, keys, over, with = {}, {}, {}, {}, {}, {}, 0
  end

  for index = 1, count do
    local key, created, updated, version, sizes, where, texts, vector = given(index)
    local id, old = name .. (of.before + index), standing[index]
    local arrival, number, old_id
    if old then
      number, created, arrival, old_id = string.match(old, RECORD)
      number = tonumber(number)
    end
    if old and version ~= '' and number >= tonumber(version) then
      reply[#reply + 1] = 'kept'
      reply[#reply + 1] = text(number)
      redis.call('HDEL', bodies, id)
      if of.sent_to ~= '' then redis.call('HDEL', vectors[of.sent_to], id) end
    else
      serial = serial + 1
      local stamp = string.format('%016.0f', serial)
      number = version ~= '' and tonumber(version) or (old and number or floor) + 1
      top = math.max(top, number)
      local head = table.concat(
        {text(number), created, arrival or stamp, updated, stamp, sizes, id}, ' '
      )
      keys[#keys + 1] = key
      records[#records + 1] = key
      records[#records + 1] = head .. '\n' .. (where == 'in' and texts or '')
      changed[#changed + 1] = text(serial)
      changed[#changed + 1] = key
      if where == 'apart' then redis.call('HSET', bodies, id, texts) end
      if old then
        over[#over + 1] = old_id
      else
        placed[#placed + 1] = '0'
        placed[#placed + 1] = created .. stamp .. key
        created_here = created_here + 1
      end
      if mine ~= '' and vector ~= '' then
        with = with + 1
        if vector ~= 'sent' then
          embedded[#embedded + 1] = id
          embedded[#embedded + 1] = vector
        end
      elseif vector == 'sent' then
        redis.call('HDEL', vectors[of.sent_to], id)
      end
      reply[#reply + 1] = old and 'old' or 'new'
      reply[#reply + 1] = text(number)
      if #keys == PIECE then flush() end
    end
  end
  flush()
  redis.call('HSET', state, 'top', text(top))
  if created_here > 0 then redis.call('HINCRBY', memory, 'notes', created_here) end
  redis.call('ZADD', counts, redis.call('HLEN', notes), namespace)

  -- The oldest others go, as many as came and some more; where a cap was lowered, later puts take
  -- the rest.
  local surplus = 0
  if of.cap > 0 then
    surplus = math.min(redis.call('HLEN', notes) - of.cap, created_here + 50, UNPACKED)
  end
  if surplus > 0 then
    local doomed, first = {}, 0
    while #doomed < surplus do
      local page = redis.call('ZRANGE', order, first, first + 99)
      if #page == 0 then break end
      for _, member in ipairs(page) do
        local key = string.sub(member, 35)
        if #doomed < surplus and not is_of(name, key) then doomed[#doomed + 1] = key end
      end
      first = first + 100
    end
    if #doomed > 0 then forget(doomed) end
  end
end
