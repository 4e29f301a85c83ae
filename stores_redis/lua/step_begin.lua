-- Begin a step between revisions, or go on with one that was cut off; one at a time does.
--
-- KEYS  1 the tenant's meta key
-- ARGV  1, 2, 3 what was found there of format, oldest and unfinished  4, 5 format and oldest of
--       the newer revision  6 seconds for which nobody else may begin
-- Reply "changed" where another revision stands there by now; "busy" where somebody else is at it;
--       "begun" and a number that is higher with each that begins
--
-- While a step is unfinished no code works on the tenant: older code takes it for a newer one.

local meta = KEYS[1]
local found = redis.call('HMGET', meta, 'format', 'oldest', 'unfinished', 'until')
for index = 1, 3 do
  if (found[index] or '') ~= ARGV[index] then return {'changed'} end
end
local now = tonumber(redis.call('TIME')[1])
if tonumber(found[4] or '0') > now then return {'busy'} end
redis.call(
  'HSET', meta, 'format', ARGV[4], 'oldest', ARGV[5], 'unfinished', '1', 'until', now + ARGV[6]
)
return {'begun', tostring(redis.call('HINCRBY', meta, 'steps', 1))}
