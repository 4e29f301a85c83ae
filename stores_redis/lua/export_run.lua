-- Reads a run as it is stored: its header and its latest keys, at one instant.
-- flags: no-writes
-- KEYS 1 the run  2 its keys
-- Reply: the fields and values of both, empty for an unknown run.
-- MOVE-1.

return {redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2])}
