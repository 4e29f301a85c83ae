-- Notes of one namespace without a vector of one generation, a piece at a time.
-- with: notes_settled
-- flags: no-writes
--
-- KEYS  1 the batch that was decided  2 changes  3 notes  4 vectors
-- ARGV  1 the serial to go on from  2 most notes found  3 most notes looked at  4 most bytes
-- Reply the serial to go on from, or "" at the end, then key and record of each note

local changes, notes, vectors = unpack(KEYS, 2)
local most, looked, budget = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local changed =
  redis.call('ZRANGEBYSCORE', changes, '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, looked)
local reply = {#changed == 2 * looked and changed[#changed] or ''}
for index = 1, #changed, 2 do
  local record = redis.call('HGET', notes, changed[index]) or ''
  local size, id = string.match(record, '^%d+ %d+ %d+ %d+ %d+ %d+ (%d+) (%S+)\n')
  if not id or redis.call('HEXISTS', vectors, id) == 0 then
    reply[#reply + 1] = changed[index]
    reply[#reply + 1] = record
    most, budget = most - 1, budget - tonumber(size or '0')
    if most == 0 or budget <= 0 then
      reply[1] = index + 1 < #changed and changed[index + 1] or reply[1]
      break
    end
  end
end
return reply
