-- Which tool results retention gives up, oldest first.
-- flags: no-writes
--
-- KEYS  1 results  2 order  3 bytes
-- ARGV  1 the age beyond which one is too old, or ""  2 most results, 0: any  3 most bytes, 0: any
--       4 most of them to name
-- Reply ref and age of each
--
-- TOOL-5: the newest one stays.

local results, order, bytes = unpack(KEYS)
local horizon, most, most_bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local left, held = redis.call('ZCARD', order), tonumber(redis.call('GET', bytes) or '0')
local reply = {}
for _, member in ipairs(redis.call('ZREVRANGEBYLEX', order, '+', '-', 'LIMIT', 0, ARGV[4])) do
  local age, ref = string.sub(member, 1, 18), string.sub(member, 19)
  local size = string.match(redis.call('HGET', results, ref) or '', '^%d+ (%d+) ') or '0'
  local is_surplus = (horizon ~= '' and age > horizon)
    or (most > 0 and left > most) or (most_bytes > 0 and held > most_bytes)
  if left <= 1 or not is_surplus then break end
  reply[#reply + 1] = ref
  reply[#reply + 1] = age
  left, held = left - 1, held - tonumber(size)
end
return reply
