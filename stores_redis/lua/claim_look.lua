-- Looks at what stands under an id at its home.
-- flags: no-writes
-- KEYS 1 the id's key
-- Reply: the server's time in seconds; the token of the run that lies here, its parent and its fork
-- point, or ""; the place that the id is claimed for, or "".

local found = redis.call('HMGET', KEYS[1], 'token', 'parent', 'fork', 'away')
for index = 1, 4 do found[index] = found[index] or '' end
return {redis.call('TIME')[1], unpack(found)}
