-- Names runs whose claims can be judged: nobody can be about to make one.
-- flags: no-writes
-- KEYS 1 births
-- ARGV 1 seconds that must have passed  2 most
-- Reply: their members.

local last = tonumber(redis.call('TIME')[1]) - tonumber(ARGV[1])
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', last, 'LIMIT', 0, ARGV[2])
