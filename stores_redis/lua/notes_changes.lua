-- What of a namespace changed since a serial, a piece at a time.
-- with: notes_settled
-- flags: no-writes
--
-- KEYS  1 the batch that was decided  2 memory  3 state  4 changes  5 gone  6 notes
--       7 vectors of a generation, if they are wanted
-- ARGV  1 the epoch that the caller follows, or ""  2 the serial up to which it has the changes
--       3 the serial up to which it knows what is gone  4 most notes of a piece
--       5 most bytes of it  6 the generation, or ""
-- Reply the epoch now ("" without notes), both serials with this piece, "more" or "", "void" where
--       what the caller holds is to be given up first or "", the generations, the embedder in use
--       or "", how many notes and how many vectors there are, how many keys are gone and these,
--       then key, record and vector ("" where there is none) of each note that changed. Where
--       vectors are wanted, a record is only its first line.
--
-- Once a piece says that there is no more, what was taken in is the namespace at that instant.

local memory, state, changes, gone, notes, vectors = unpack(KEYS, 2)
local epoch, seen, since = ARGV[1], ARGV[2], ARGV[3]
local most, budget = tonumber(ARGV[4]), tonumber(ARGV[5])

local found =
  redis.call('HMGET', state, 'epoch', 'serial', 'forgotten', 'vectors:' .. ARGV[6])
local generations = redis.call('HGET', memory, 'generations') or ''
local active = string.match(generations, '^%S+')
local about = active and redis.call('HGET', memory, 'embedder:' .. active) or ''
if not found[1] then return {'', '0', '0', '', 'void', generations, about, '0', '0', '0'} end

local void, removed = '', {}
if found[1] ~= epoch or tonumber(since) < tonumber(found[3] or '0') then
  void, seen = 'void', '0'
else
  removed = redis.call('ZRANGEBYSCORE', gone, '(' .. since, '+inf')
end
local changed =
  redis.call('ZRANGEBYSCORE', changes, '(' .. seen, '+inf', 'WITHSCORES', 'LIMIT', 0, most)

local last, more, values = found[2], #changed == 2 * most, {}
for index = 1, #changed, 2 do
  local record, vector = redis.call('HGET', notes, changed[index]) or '', ''
  local size, id = string.match(record, '^%d+ %d+ %d+ %d+ %d+ %d+ (%d+) (%S+)\n')
  if vectors then
    vector = id and redis.call('HGET', vectors, id) or ''
    record = string.match(record, '^[^\n]*\n') or ''
  end
  values[#values + 1] = changed[index]
  values[#values + 1] = record
  values[#values + 1] = vector
  last = changed[index + 1]
  -- Texts that are apart are read by the caller, so they count too.
  budget = budget - #record - (vectors and #vector or tonumber(size or '0'))
  if budget <= 0 and index + 1 < #changed then
    more = true
    break
  end
end
local reply = {
  found[1], more and last or found[2], found[2], more and 'more' or '', void, generations, about,
  tostring(redis.call('HLEN', notes)), found[4] or '0', tostring(#removed),
}
for _, key in ipairs(removed) do reply[#reply + 1] = key end
for _, value in ipairs(values) do reply[#reply + 1] = value end
return reply
