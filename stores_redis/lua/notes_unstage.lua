-- Free a text that was sent for a note and that no note came to refer to.
-- flags: allow-oom
--
-- KEYS  1 staged  2 bodies of the namespace
-- ARGV  1 its entry in staged  2 its field in bodies
-- Reply "1" if it was freed, else "0"

if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return {'0'} end
redis.call('HDEL', KEYS[2], ARGV[2])
return {'1'}
