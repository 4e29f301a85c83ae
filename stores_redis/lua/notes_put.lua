-- Write notes of one namespace, all or none.
-- with: notes
--
-- KEYS  as in notes.lua
-- ARGV  1, 2 as in notes.lua  3 the caller's generation, or ""  4 its embedder
--       5 "strict": refuse where another embedder's vectors are in use; else write without vectors
--       6 the version expected of a single note, or ""  7 most notes of the namespace, 0: any
--       8 a token: the namespace's epoch if it is new; an id is this, a hyphen and a number from 1
--       9 how many notes, then for each: key, created, updated, version or "" for the next one, its
--       bytes of metadata and of all texts, "in" the record, "apart" or "sent" apart before, the
--       texts or "", its vector, "sent" or ""
-- Reply "ok", "indexed" or "", then for each note "new", "old" or "kept" (an older version than the
--       one that stands) and its version; or "conflict" and the version found; or "embedder" and
--       the one in use; or "again" and the generations; or "unsent"
--
-- MEM-1, MEM-2, MEM-6, MEM-8, MEM-9, MEM-11, EMB-5: a put is one step, its vectors and its place
-- included.

local mine, about, strict, expected, cap, token, count = unpack(ARGV, 3, 9)
local FIELDS, PIECE = 8, 300
cap, count = tonumber(cap), tonumber(count)

local function given(index) return unpack(ARGV, 10 + (index - 1) * FIELDS, 9 + index * FIELDS) end

if is_outdated() then return {'again', generations} end
if mine ~= '' and generations ~= '' then
  local active = string.match(generations, '^%S+')
  if active ~= mine then
    if strict ~= '' then return {'embedder', redis.call('HGET', memory, 'embedder:' .. active)} end
    mine = ''
  end
end

local standing = {}
for first = 1, count, UNPACKED do
  local keys = {}
  for index = first, math.min(count, first + UNPACKED - 1) do keys[#keys + 1] = (given(index)) end
  for _, record in ipairs(redis.call('HMGET', notes, unpack(keys))) do
    standing[#standing + 1] = record
  end
end
if expected ~= '' then
  local version = standing[1] and string.match(standing[1], RECORD) or '0'
  if version ~= expected then return {'conflict', version} end
end
local was_sent = false
for index = 1, count do
  local _, _, _, _, _, where, _, vector = given(index)
  local id = token .. '-' .. index
  if where == 'sent' then
    was_sent = true
    if redis.call('HEXISTS', bodies, id) == 0 then return {'unsent'} end
  end
  if vector == 'sent' then
    was_sent = true
    if mine ~= '' and redis.call('HEXISTS', vectors[mine], id) == 0 then return {'unsent'} end
  end
end

-- Free what was sent and does not count after all.
local function discard(id)
  redis.call('HDEL', bodies, id)
  if ARGV[3] ~= '' then redis.call('HDEL', vectors[ARGV[3]], id) end
end

local found = redis.call('HMGET', state, 'serial', 'top')
local serial, top = tonumber(found[1] or '0'), tonumber(found[2] or '0')
redis.call('HSET', state, 'serial', text(serial + count))
if redis.call('HLEN', notes) == 0 then
  redis.call('HSET', state, 'epoch', token)
  redis.call('ZADD', namespaces, '0', namespace)
  redis.call('UNLINK', order, changes, gone)  -- where a server that evicts left them
end
if mine ~= '' and generations == '' then
  redis.call('HSET', memory, 'generations', mine, 'embedder:' .. mine, about)
end
if was_sent then
  local generation = ARGV[3] ~= '' and ARGV[3] or '-'
  redis.call('ZREM', staged, table.concat({token, count, generation, namespace}, ' '))
end

local floor = tonumber(redis.call('HGET', memory, 'floor') or '0')
local reply, just_put, created_here = {'ok', ''}, {}, 0
if mine ~= '' and redis.call('EXISTS', indexes[mine]) == 1 then reply[2] = 'indexed' end
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
  local id, old, arrival, number, old_id = token .. '-' .. index, standing[index], nil, nil, nil
  if old then
    number, created, arrival, old_id = string.match(old, RECORD)
    number = tonumber(number)
  end
  if old and version ~= '' and number >= tonumber(version) then
    reply[#reply + 1] = 'kept'
    reply[#reply + 1] = text(number)
    discard(id)
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
      redis.call('HDEL', vectors[ARGV[3]], id)
    end
    just_put[key] = true
    reply[#reply + 1] = old and 'old' or 'new'
    reply[#reply + 1] = text(number)
    if #keys == PIECE then flush() end
  end
end
flush()
redis.call('HSET', state, 'top', text(top))
if created_here > 0 then redis.call('HINCRBY', memory, 'notes', created_here) end

-- The oldest others go, as many as came and some more; where a cap was lowered, later puts take the
-- rest.
local surplus = 0
if cap > 0 then
  surplus = math.min(redis.call('HLEN', notes) - cap, created_here + 50, UNPACKED)
end
if surplus > 0 then
  local doomed, first = {}, 0
  while #doomed < surplus do
    local page = redis.call('ZRANGE', order, first, first + 99)
    if #page == 0 then break end
    for _, member in ipairs(page) do
      local key = string.sub(member, 35)
      if not just_put[key] and #doomed < surplus then doomed[#doomed + 1] = key end
    end
    first = first + 100
  end
  if #doomed > 0 then forget(doomed) end
end
return reply
