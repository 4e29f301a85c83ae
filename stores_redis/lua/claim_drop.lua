-- Removes the claim of a run that is no more.
-- flags: allow-oom
-- KEYS 1 the id's key
-- ARGV 1 the place that the claim names
-- Reply: "dropped", or "kept" where no such claim stands there.

if redis.call('HGET', KEYS[1], 'away') ~= ARGV[1] then return {'kept'} end
redis.call('DEL', KEYS[1])
return {'dropped'}
