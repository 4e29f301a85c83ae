-- A page of a namespace, oldest first.
-- with: notes_settled
-- flags: no-writes
--
-- KEYS  1 the batch that was decided  2 order  3 notes  4 vectors, if they are wanted
-- ARGV  1 the place behind which it begins, or ""  2 most notes  3 most bytes of their texts
-- Reply "more" or "", then key, record and vector, or "", of each note. A record that was lost is
--       "", which the caller cannot read.
--
-- MEM-3, ALL-11: a page is one instant, and costs the page.

local order, notes, vectors = unpack(KEYS, 2)
local after, most, budget = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local from = after == '' and '-' or '[' .. after .. '\255'
local members = redis.call('ZRANGEBYLEX', order, from, '+', 'LIMIT', 0, most + 1)
local reply, total = {''}, 0
for index, member in ipairs(members) do
  local key = string.sub(member, 35)
  local record = redis.call('HGET', notes, key) or ''
  local size, id = string.match(record, '^%d+ %d+ %d+ %d+ %d+ %d+ (%d+) (%S+)\n')
  total = total + #key + tonumber(size or '0')
  if index > most or (index > 1 and total > budget) then
    reply[1] = 'more'
    break
  end
  reply[#reply + 1] = key
  reply[#reply + 1] = record
  reply[#reply + 1] = vectors and id and redis.call('HGET', vectors, id) or ''
end
return reply
