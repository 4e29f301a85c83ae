-- Looks for a log in one bucket.
-- with: logs
-- flags: no-writes
-- KEYS 1 its segments
-- ARGV 1 tag  2 log
-- Reply: how many entries of it are here, and whether runs read it ("1" or "0").
-- MOVE-3.

local tag, log = ARGV[1], ARGV[2]
return {tostring(length_of(tag, log)), tostring(redis.call('EXISTS', tag .. 'users:' .. log))}
