-- Names the oldest tool results of one bucket, for a retention that counts over several.
-- flags: no-writes
--
-- KEYS  1 results  2 order  3 bytes
-- ARGV  1 most of them to name
-- Reply how many results there are and their bytes; then ref, age and bytes of each, oldest first

local results, order, bytes = unpack(KEYS)
local reply = {tostring(redis.call('ZCARD', order)), redis.call('GET', bytes) or '0'}
for _, member in ipairs(redis.call('ZREVRANGEBYLEX', order, '+', '-', 'LIMIT', 0, ARGV[1])) do
  local ref = string.sub(member, 19)
  local size = string.match(redis.call('HGET', results, ref) or '', '^%d+ (%d+) ') or '0'
  for _, part in ipairs({ref, string.sub(member, 1, 18), size}) do reply[#reply + 1] = part end
end
return reply
