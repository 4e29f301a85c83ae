-- Write fields of a hash that has not got the first of them; who comes second changes nothing.
--
-- KEYS  1 a hash
-- ARGV  1, 2, ... field, value
-- Reply what the first field is now

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then redis.call('HSET', KEYS[1], unpack(ARGV)) end
return {redis.call('HGET', KEYS[1], ARGV[1])}
