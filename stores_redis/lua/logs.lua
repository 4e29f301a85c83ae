-- A part of other scripts: logs, and what a run sees of them.
--
-- A log is made of segments, lists of at most some thousand entries or some MiB. `segs:<log>` says
-- where each begins; a log of one segment, which bears its name, has none. A segment whose name
-- ends in "!" and a number is one large entry, cut into so many parts. A run reads `ranges`,
-- prefixes of closed logs written as "log length log length ", and then its own log. `users:<log>`
-- says how much of a log each run needs; there is none while nobody but its owner reads it.

local OPEN = '9007199254740991' -- what the owner of a log needs of it: all that will ever be there
local MAX_RANGES = 64
local SEGMENT_ENTRIES, SEGMENT_BYTES = 1000, 1048576
local FREED_AT_ONCE = 64 -- segments; what is more is left to sweep

local LOG_FIELDS = {'count', 'ranges', 'log', 'start', 'seg', 'from', 'size'}

-- What a run sees of one of its logs ('m' or 'e'), from a map of its header.
local function view_of(run, kind)
  local view = {kind = kind}
  for _, name in ipairs(LOG_FIELDS) do view[name] = run[kind .. '.' .. name] or '' end
  for _, name in ipairs({'count', 'start', 'from', 'size'}) do
    view[name] = tonumber(view[name]) or 0
  end
  return view
end

-- The ranges of a view that hold its first `count` entries, its own log last.
local function ranges_of(view, count)
  local taken = {}
  local function take(log, length)
    if count > 0 and length > 0 then
      taken[#taken + 1] = {log, math.min(length, count)}
      count = count - length
    end
  end
  for log, length in string.gmatch(view.ranges, '(%S+) (%d+)') do take(log, tonumber(length)) end
  if view.log ~= '' then take(view.log, view.count - view.start) end
  return taken
end

local function joined_text(ranges)
  local parts = {}
  for _, range in ipairs(ranges) do parts[#parts + 1] = range[1] .. ' ' .. range[2] .. ' ' end
  return table.concat(parts)
end

-- Adds rows of (segment, first, last + 1) that hold the entries of a log from `first` to `stop`.
local function add_rows(tag, rows, log, first, stop)
  local segs = tag .. 'segs:' .. log
  local at = redis.call('ZREVRANGEBYSCORE', segs, first, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if #at == 0 then at = {log, '0'} end
  local after = redis.call('ZRANGEBYSCORE', segs, '(' .. first, '(' .. stop, 'WITHSCORES')
  for _, part in ipairs(after) do at[#at + 1] = part end
  for index = 1, #at, 2 do
    local from = tonumber(at[index + 1])
    local to = index + 3 <= #at and tonumber(at[index + 3]) or stop
    rows[#rows + 1] = at[index]
    rows[#rows + 1] = tostring(math.max(first, from) - from)
    rows[#rows + 1] = tostring(math.min(stop, to) - from)
  end
end

-- Whether a segment is one entry in parts.
local function is_cut(name) return string.find(name, '!', 1, true) ~= nil end

-- How many entries a segment holds.
local function entries_in(tag, name)
  local length = redis.call('LLEN', tag .. 'seg:' .. name)
  local parts = string.match(name, '!(%d+)$')
  if not parts then return length end
  return length == tonumber(parts) and 1 or 0
end

-- How many entries a log holds.
local function length_of(tag, log)
  local last = redis.call('ZREVRANGE', tag .. 'segs:' .. log, 0, 0, 'WITHSCORES')
  if #last == 0 then return entries_in(tag, log) end
  return tonumber(last[2]) + entries_in(tag, last[1])
end

-- Touches all keys that taking or leaving these ranges writes to, so that a key of another type is
-- met before the first write.
local function look_at_logs(tag, ranges)
  for _, range in ipairs(ranges) do
    redis.call('ZCARD', tag .. 'users:' .. range[1])
    redis.call('ZCARD', tag .. 'segs:' .. range[1])
  end
  redis.call('SCARD', tag .. 'trimmable')
  redis.call('ZCARD', tag .. 'staged')
end

-- Puts a segment into the index of a log.
local function add_segment(tag, log, from, name)
  if from > 0 or name ~= log then
    local segs = tag .. 'segs:' .. log
    if from > 0 and redis.call('EXISTS', segs) == 0 then redis.call('ZADD', segs, 0, log) end
    redis.call('ZADD', segs, from, name)
  end
end

-- Frees segments of a log that nobody reads; what is many is left to sweep.
local function free_log(tag, log)
  local segs = tag .. 'segs:' .. log
  local names = redis.call('ZRANGE', segs, 0, FREED_AT_ONCE - 1)
  for _, name in ipairs(names) do redis.call('UNLINK', tag .. 'seg:' .. name) end
  if #names > 0 then redis.call('ZREMRANGEBYRANK', segs, 0, #names - 1) end
  if redis.call('EXISTS', segs) == 1 then
    redis.call('SADD', tag .. 'trimmable', log)
  else
    redis.call('UNLINK', tag .. 'seg:' .. log, tag .. 'users:' .. log)
    redis.call('SREM', tag .. 'trimmable', log)
  end
end

-- Lets a run read ranges.
local function use_ranges(tag, ranges, token)
  for _, range in ipairs(ranges) do
    redis.call('ZADD', tag .. 'users:' .. range[1], 'GT', range[2], token)
    redis.call('ZREM', tag .. 'staged', 'log ' .. range[1])
  end
end

-- A run does not read a log any more.
local function leave_log(tag, log, token)
  local users = tag .. 'users:' .. log
  redis.call('ZREM', users, token)
  if redis.call('EXISTS', users) == 0 then
    free_log(tag, log)
  else
    redis.call('SADD', tag .. 'trimmable', log)
  end
end
