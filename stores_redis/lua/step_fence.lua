-- A part of other scripts: work of a step in one bucket, refused to whoever was overtaken.
--
-- KEYS  1 the number of the step that worked here last
-- ARGV  1 the number of the caller's step
-- Reply "lost" where a later one has worked here

if tonumber(redis.call('GET', KEYS[1]) or '0') > tonumber(ARGV[1]) then return {'lost'} end
redis.call('SET', KEYS[1], ARGV[1])
