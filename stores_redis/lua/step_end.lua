-- End a step: the tenant is at another revision.
--
-- KEYS  1 the tenant's meta key
-- ARGV  1 the number with which it began  2, 3 format and oldest of the revision
-- Reply "done"; or "lost" where somebody else has begun since

local meta = KEYS[1]
if redis.call('HGET', meta, 'steps') ~= ARGV[1] then return {'lost'} end
redis.call('HSET', meta, 'format', ARGV[2], 'oldest', ARGV[3])
redis.call('HDEL', meta, 'unfinished', 'until')
return {'done'}
