-- Adds entries to a log that an import brings, unseen until a run refers to them.
-- with: logs
-- KEYS 1 what is staged
-- ARGV 1 tag  2 log  3 now  4 position of the first entry  5 a staged segment that is the one
--      entry, or ""  6... else entries, 1,000 at most
-- Reply: the length of the log.
-- MOVE-2: what is there already is passed over. A log that a run here writes to is never made
-- longer.

local tag, log, start = ARGV[1], ARGV[2], tonumber(ARGV[4])
local length = length_of(tag, log)
local top = redis.call('ZREVRANGE', tag .. 'users:' .. log, 0, 0, 'WITHSCORES')
local is_staged = redis.call('ZSCORE', KEYS[1], 'log ' .. log)
local is_written_here = length > 0 and #top == 0 and not is_staged
if is_written_here or top[2] == OPEN or start > length then return {tostring(length)} end
local large, given = ARGV[5] ~= '', #ARGV - 5
if large then given = entries_in(tag, ARGV[5]) end
local skipped = length - start
local name = large and ARGV[5] or length == 0 and log or log .. ':' .. length
redis.call('LLEN', tag .. 'seg:' .. name)

if #top == 0 then redis.call('ZADD', KEYS[1], ARGV[3], 'log ' .. log) end
if skipped < given then
  add_segment(tag, log, length, name)
  if large then
    redis.call('ZREM', KEYS[1], name)
  else
    redis.call('RPUSH', tag .. 'seg:' .. name, unpack(ARGV, 6 + skipped, #ARGV))
  end
  length = start + given
end
return {tostring(length)}
