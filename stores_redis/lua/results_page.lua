-- Headers of tool results, newest first.
-- flags: no-writes
--
-- KEYS  1 results  2 order  3 labels
-- ARGV  1 the place behind which to begin, or ""  2 most headers  3 most looked at  4 most bytes
--       5.. names of labels that each must have
-- Reply the place to go on from, or "" at the end; how many were looked at; ref and header of each
--
-- TOOL-7, RUN-Q4: with labels the rarest of them is walked.

local results, order, labels = unpack(KEYS)
local after, most, looks, budget = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local walked, name = order, ''
local fewest
for index = 5, #ARGV do
  local count = redis.call('ZLEXCOUNT', labels, '[' .. ARGV[index], '[' .. ARGV[index] .. '\255')
  if not fewest or count < fewest then
    walked, name, fewest = labels, ARGV[index], count
  end
end
local from = (after == '' and '[' or '(') .. name .. after
if after == '' and name == '' then from = '-' end
local till = name == '' and '+' or '[' .. name .. '\255'
local members = redis.call('ZRANGEBYLEX', walked, from, till, 'LIMIT', 0, looks + 1)

local reply, position = {'', '0'}, ''
for index, member in ipairs(members) do
  if index > looks or #reply >= 2 * most + 2 or budget <= 0 then
    reply[1] = position
    break
  end
  position = string.sub(member, #name + 1)
  local ref = string.sub(position, 19)
  local header = redis.call('HGET', results, ref)
  local fits = header and true
  for at = 5, #ARGV do
    fits = fits and string.find(header, ARGV[at], 1, true) ~= nil
  end
  if fits then
    reply[#reply + 1] = ref
    reply[#reply + 1] = header
    budget = budget - #header
  end
  reply[2] = tostring(index)
end
return reply
