-- Notes by their keys.
-- with: notes_settled
-- flags: no-writes
--
-- KEYS  1 the batch that was decided  2 notes  3 bodies
-- ARGV  1 most bytes of texts that are apart  2.. keys, at most 1,000
-- Reply record, or "", and the texts if they are apart and fit, or "", of each
--
-- A note is seen whole, as one version of it.

local notes, bodies = unpack(KEYS, 2)
local budget, reply = tonumber(ARGV[1]), {}
for index = 2, #ARGV do
  local record = redis.call('HGET', notes, ARGV[index]) or ''
  local texts = ''
  local size, id, rest = string.match(record, '^%d+ %d+ %d+ %d+ %d+ %d+ (%d+) (%S+)\n()')
  if id and rest > #record and tonumber(size) <= budget then
    texts = redis.call('HGET', bodies, id) or ''
    budget = budget - #texts
  end
  reply[#reply + 1] = record
  reply[#reply + 1] = texts
end
return reply
