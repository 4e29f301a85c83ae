-- Let new notes of a bucket start above a version.
--
-- KEYS  1 memory
-- ARGV  1 the version
-- Reply "ok"

if tonumber(ARGV[1]) > tonumber(redis.call('HGET', KEYS[1], 'floor') or '0') then
  redis.call('HSET', KEYS[1], 'floor', ARGV[1])
end
return {'ok'}
