-- A part of other scripts: what an append looks at before it writes, and what it writes beside
-- entries.
-- KEYS 1 the run  2 its keys
-- ARGV 1 tag  2 now  3 id of a log to be made  4 messages expected or ""  5 events expected or ""
--      6 idempotency key or ""  7 digest of the batch

local KEYS_KEPT = 128

-- The answer if nothing is to be written, else nil; and the header.
local function refusal()
  local run = {}
  local names = {'token', 'keys'}
  for _, kind in ipairs({'m.', 'e.'}) do
    for _, name in ipairs(LOG_FIELDS) do names[#names + 1] = kind .. name end
  end
  local values = redis.call('HMGET', KEYS[1], unpack(names))
  if not values[1] then return {'unknown'} end
  for index, name in ipairs(names) do run[name] = values[index] or nil end
  if ARGV[6] ~= '' then
    local known = redis.call('HGET', KEYS[2], 'k' .. ARGV[6])
    if known then
      -- Written anew, so that there is something for this answer, too, to wait for.
      redis.call('HSET', KEYS[2], 'k' .. ARGV[6], known)
      return {'known', known}
    end
  end
  if (ARGV[4] ~= '' and ARGV[4] ~= run['m.count'])
    or (ARGV[5] ~= '' and ARGV[5] ~= run['e.count']) then
    return {'conflict', run['m.count'], run['e.count']}
  end
  return nil, run
end

-- Opens a run's own log if it has none. The answer if that cannot be, else nil.
local function open_log(tag, view, id)
  if view.log == '' then
    local _, ranges = string.gsub(view.ranges, '%S+ %d+ ', '')
    if ranges >= MAX_RANGES then return {'join', view.kind} end
    view.log, view.start, view.seg, view.from, view.size = id, view.count, id, 0, 0
  end
  local there = redis.call('LLEN', tag .. 'seg:' .. view.seg)
  if there ~= view.count - view.start - view.from then
    return {'damaged', view.kind, tostring(view.start + view.from + there)}
  end
  return nil
end

local function add_view(fields, view)
  for _, name in ipairs({'count', 'log', 'start', 'seg', 'from', 'size'}) do
    fields[#fields + 1] = view.kind .. '.' .. name
    fields[#fields + 1] = view[name]
  end
end

-- The claim: the header as it is after the append, and the key. Only entries are to follow.
local function claim(run, messages, events)
  local fields = {'updated', ARGV[2], 'imported', ''}
  if messages then add_view(fields, messages) end
  if events then add_view(fields, events) end
  local counts = {
    tostring(messages and messages.count or run['m.count']),
    tostring(events and events.count or run['e.count'])
  }
  if ARGV[6] == '' then
    redis.call('HSET', KEYS[1], unpack(fields))
    return counts
  end
  local seen = tonumber(run['keys'] or '0')
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
