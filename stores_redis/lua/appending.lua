-- A part of other scripts: what an append looks at before it writes, and what it writes beside
-- entries.
-- KEYS 1 the run  2 its keys
-- ARGV 1 tag  2 now  3 id of a log to be made  4 messages expected or ""  5 events expected or ""
--      6 idempotency key or ""  7 digest of the batch

local KEYS_KEPT = 128

-- What an append needs of a header: two fields, then those of each log in the order of LOG_FIELDS.
local NEEDED = {
  'token', 'keys',
  'm.count', 'm.ranges', 'm.log', 'm.start', 'm.seg', 'm.from', 'm.size',
  'e.count', 'e.ranges', 'e.log', 'e.start', 'e.seg', 'e.from', 'e.size'
}

-- The answer if nothing is to be written, else nil; and the values of NEEDED.
local function refusal()
  local values = redis.call('HMGET', KEYS[1], unpack(NEEDED))
  if not values[1] then return {'unknown'} end
  if ARGV[6] ~= '' then
    local known = redis.call('HGET', KEYS[2], 'k' .. ARGV[6])
    if known then
      -- Written anew, so that there is something for this answer, too, to wait for.
      redis.call('HSET', KEYS[2], 'k' .. ARGV[6], known)
      return {'known', known}
    end
  end
  if (ARGV[4] ~= '' and ARGV[4] ~= values[3]) or (ARGV[5] ~= '' and ARGV[5] ~= values[10]) then
    return {'conflict', values[3], values[10]}
  end
  return nil, values
end

-- The view of one log: `at` is where its values stand among those of NEEDED.
local function needed_view(values, at)
  return {
    kind = at == 3 and 'm' or 'e', count = tonumber(values[at]), ranges = values[at + 1] or '',
    log = values[at + 2] or '', start = tonumber(values[at + 3] or 0), seg = values[at + 4],
    from = tonumber(values[at + 5] or 0), size = tonumber(values[at + 6] or 0)
  }
end

-- Opens a run's own log if it has none. The answer if that cannot be, else nil. `is_new` says that
-- the segment to write to is another than before.
local function open_log(tag, view, id)
  if view.log == '' then
    local _, ranges = string.gsub(view.ranges, '%S+ %d+ ', '')
    if ranges >= MAX_RANGES then return {'join', view.kind} end
    view.log, view.start, view.seg, view.from, view.size = id, view.count, id, 0, 0
    view.is_new = true
  end
  local there = entries_in(tag, view.seg)
  if there ~= view.count - view.start - view.from then
    return {'damaged', view.kind, tostring(view.start + view.from + there)}
  end
  return nil
end

-- The claim: the header as it is after the append, and the key. Only entries are to follow.
local function claim(values, messages, events)
  local fields = {'updated', ARGV[2], 'imported', ''}
  local function add(view)
    local kind, next = view.kind, #fields
    fields[next + 1], fields[next + 2] = kind .. '.count', view.count
    fields[next + 3], fields[next + 4] = kind .. '.size', view.size
    if view.is_new then
      fields[next + 5], fields[next + 6] = kind .. '.log', view.log
      fields[next + 7], fields[next + 8] = kind .. '.start', view.start
      fields[next + 9], fields[next + 10] = kind .. '.seg', view.seg
      fields[next + 11], fields[next + 12] = kind .. '.from', view.from
    end
  end
  if messages then add(messages) end
  if events then add(events) end
  local counts = {
    messages and tostring(messages.count) or values[3],
    events and tostring(events.count) or values[10]
  }
  if ARGV[6] == '' then
    redis.call('HSET', KEYS[1], unpack(fields))
    return counts
  end
  local seen = tonumber(values[2] or 0)
  fields[#fields + 1] = 'keys'
  fields[#fields + 1] = seen + 1
  redis.call('HSET', KEYS[1], unpack(fields))
  local slot = 's' .. seen % KEYS_KEPT
  local oldest = redis.call('HGET', KEYS[2], slot)
  if oldest then redis.call('HDEL', KEYS[2], 'k' .. oldest) end
  local record = ARGV[7] .. ' ' .. counts[1] .. ' ' .. counts[2]
  redis.call('HSET', KEYS[2], slot, ARGV[6], 'k' .. ARGV[6], record)
  return counts
end
