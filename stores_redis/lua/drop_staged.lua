-- Frees one segment or log that was staged and that nothing came to refer to.
-- with: logs
-- flags: allow-oom
-- KEYS 1 what is staged
-- ARGV 1 tag  2 name of a segment, or "log " and that of a log  3 microseconds before which it was
--      staged  4 how many entries the log must have, or none
-- Reply: how many entries were freed, or "0" where something refers to it by now, or it is
-- longer.

local tag, name = ARGV[1], ARGV[2]
local since = redis.call('ZSCORE', KEYS[1], name)
if not since or tonumber(since) >= tonumber(ARGV[3]) then return {'0'} end
if string.sub(name, 1, 4) ~= 'log ' then
  local key = tag .. 'seg:' .. name
  local count = entries_in(tag, name)
  redis.call('ZREM', KEYS[1], name)
  redis.call('UNLINK', key)
  return {tostring(count)}
end
local log = string.sub(name, 5)
local count = length_of(tag, log)
if ARGV[4] and count ~= tonumber(ARGV[4]) then return {'0'} end
redis.call('SCARD', tag .. 'trimmable')
redis.call('ZREM', KEYS[1], name)
if redis.call('EXISTS', tag .. 'users:' .. log) == 1 then return {'0'} end
free_log(tag, log)
return {tostring(count)}
