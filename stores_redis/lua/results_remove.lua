-- Remove a tool result.
-- flags: allow-oom
--
-- KEYS  1 results  2 order  3 labels  4 bytes  5 the ref's parts
-- ARGV  1 ref  2 the age that it must have, or ""
-- Reply "1" if it was removed, else "0"

local results, order, labels, bytes, parts = unpack(KEYS)
local ref, wanted = ARGV[1], ARGV[2]
for _, key in ipairs({order, labels}) do redis.call('ZCARD', key) end
redis.call('LLEN', parts)
redis.call('GET', bytes)
local old = redis.call('HGET', results, ref)
if not old then return {'0'} end
local age, size, names = string.match(old, '^(%d+) (%d+) %d+ %S+ %d+ %d+ (%S+)\n')
if wanted ~= '' and wanted ~= age then return {'0'} end
redis.call('HDEL', results, ref)
redis.call('ZREM', order, age .. ref)
for name in string.gmatch(names, '%x+') do redis.call('ZREM', labels, name .. age .. ref) end
redis.call('UNLINK', parts)
if redis.call('DECRBY', bytes, size) == 0 then redis.call('DEL', bytes) end
return {'1'}
