-- Put a tool result, in place of one of that ref.
--
-- KEYS  1 results  2 order  3 labels  4 bytes  5 the ref's parts  6 parts that were staged
-- ARGV  1 ref  2 header  3 how many parts were staged, 0: they are given here
--       4 how many labels, then their names, then parts
-- Reply "ok"; or "unstaged", and nothing was written
--
-- A header is a line: age size characters token text-parts parts label-names-or-"-", then the
-- labels as JSON. `age` is 18 digits that fall with time, so that what is newest sorts first.
--
-- TOOL-3: replaced whole, in one step.

local results, order, labels, bytes, parts, staged = unpack(KEYS)
local ref, header, wanted, named = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local HEADER = '^(%d+) (%d+) %d+ %S+ %d+ %d+ (%S+)\n'

for _, key in ipairs({order, labels}) do redis.call('ZCARD', key) end
for _, key in ipairs({parts, staged}) do redis.call('LLEN', key) end
redis.call('GET', bytes)
local old = redis.call('HGET', results, ref)
if wanted > 0 and redis.call('LLEN', staged) ~= wanted then return {'unstaged'} end

redis.call('HSET', results, ref, header)
local age, size = string.match(header, HEADER)
local change = tonumber(size)
if old then
  local old_age, old_size, names = string.match(old, HEADER)
  change = change - tonumber(old_size)
  redis.call('ZREM', order, old_age .. ref)
  for name in string.gmatch(names, '%x+') do redis.call('ZREM', labels, name .. old_age .. ref) end
end
redis.call('ZADD', order, '0', age .. ref)
for index = 5, 4 + named do redis.call('ZADD', labels, '0', ARGV[index] .. age .. ref) end
redis.call('INCRBY', bytes, string.format('%.0f', change))
redis.call('UNLINK', parts)
if wanted > 0 then
  redis.call('RENAME', staged, parts)
  redis.call('PERSIST', parts)
else
  for index = 5 + named, #ARGV do redis.call('RPUSH', parts, ARGV[index]) end
end
return {'ok'}
