-- Write a hash if there is none; who comes second changes nothing.
--
-- KEYS  1 a hash
-- ARGV  1, 2, ... field, value
-- Reply what the first field is now, or ""

if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('HSET', KEYS[1], unpack(ARGV)) end
return {redis.call('HGET', KEYS[1], ARGV[1]) or ''}
