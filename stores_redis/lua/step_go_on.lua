-- Go on with a step for a while.
--
-- KEYS  1 the tenant's meta key
-- ARGV  1 the number with which it began  2 seconds for which nobody else may begin
-- Reply "on"; or "lost" where somebody else has begun since

if redis.call('HGET', KEYS[1], 'steps') ~= ARGV[1] then return {'lost'} end
redis.call('HSET', KEYS[1], 'until', redis.call('TIME')[1] + ARGV[2])
return {'on'}
