-- Free what was sent for notes that no put came to refer to.
-- flags: allow-oom
--
-- KEYS  1 staged  2 the batch as it was laid out  3 bodies of the namespace
--       4.. vectors of the generations in it
-- ARGV  1 its entry in staged  2.. ids, at most 1,000
-- Reply how many it freed
--
-- A put takes its entry out in the step that refers to the ids, so whose entry is there has none.

if redis.call('ZSCORE', KEYS[1], ARGV[1]) == false then return {'0'} end
local freed = 0
redis.call('UNLINK', KEYS[2]) -- first, so that nobody decides what is there in part
for index = 3, #KEYS do freed = freed + redis.call('HDEL', KEYS[index], unpack(ARGV, 2)) end
return {tostring(freed)}
