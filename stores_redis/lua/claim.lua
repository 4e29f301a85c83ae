-- Claims an id for a run that lies in another bucket.
-- KEYS 1 the id's key
-- ARGV 1 the place  2 seconds at which the id was looked at  3 seconds that a claim may take
-- Reply: "claimed"; "taken" where a run or another claim stands there; "late".
-- RUN-C3, RUN-F8: this one step is the run's birth. It is refused when it is late, since sweep will
-- by and by remove what no claim names.

if redis.call('HLEN', KEYS[1]) > 0 then return {'taken'} end
if tonumber(redis.call('TIME')[1]) - tonumber(ARGV[2]) > tonumber(ARGV[3]) then return {'late'} end
redis.call('HSET', KEYS[1], 'away', ARGV[1])
return {'claimed'}
