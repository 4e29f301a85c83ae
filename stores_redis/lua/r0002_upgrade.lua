-- Count the notes of some namespaces of a bucket.
-- with: step_fence headers
--
-- KEYS  1 as in step_fence.lua  2 namespaces  3 namespaces by how many notes they hold
-- ARGV  1 as in step_fence.lua  2 tag  3 where to go on, "-" at first  4 most namespaces
-- Reply "on" and where to go on; "done"; or "lost"

local most = tonumber(ARGV[4])
if ARGV[3] == '-' then redis.call('UNLINK', KEYS[3]) end -- what an earlier try left
local names = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[3], '+', 'LIMIT', 0, most)
for _, name in ipairs(names) do
  redis.call('ZADD', KEYS[3], redis.call('HLEN', ARGV[2] .. 'notes:' .. encoded(name)), name)
end
return #names == most and {'on', '(' .. names[most]} or {'done'}
