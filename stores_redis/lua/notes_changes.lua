-- What of a namespace changed since a serial, a piece at a time.
-- flags: no-writes
--
-- KEYS  1 memory  2 state  3 changes  4 gone  5 notes  6 what is wanted of each note: notes again,
--       or the vectors of a generation
-- ARGV  1 the epoch that the caller follows, or ""  2 the serial that it has seen
--       3 most notes of a piece  4 most bytes of it
-- Reply the epoch now ("" without notes), the serial seen with this piece, "more" or "", "void"
--       where what the caller holds is to be given up first or "", the generations, the embedder in
--       use or "", how many notes and how many wanted values there are, how many keys are gone and
--       these, then key and value ("" where there is none) of each note that changed
--
-- Once a piece says that there is no more, what was taken in is the namespace at that instant.

local memory, state, changes, gone, notes, wanted = unpack(KEYS)
local epoch, seen, most, budget = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local found = redis.call('HMGET', state, 'epoch', 'serial', 'forgotten')
local generations = redis.call('HGET', memory, 'generations') or ''
local active = string.match(generations, '^%S+')
local about = active and redis.call('HGET', memory, 'embedder:' .. active) or ''
if not found[1] then return {'', '0', '', 'void', generations, about, '0', '0', '0'} end

local void = ''
if found[1] ~= epoch or tonumber(seen) < tonumber(found[3] or '0') then
  if seen ~= '0' then void = 'void' end
  seen = '0'
end
local counts = {redis.call('HLEN', notes), redis.call('HLEN', wanted)}
local removed = {}
if seen ~= '0' then removed = redis.call('ZRANGEBYSCORE', gone, '(' .. seen, '+inf') end
local changed =
  redis.call('ZRANGEBYSCORE', changes, '(' .. seen, '+inf', 'WITHSCORES', 'LIMIT', 0, most)

-- Texts that are apart from their record are read by the caller, so they count too.
local SIZE, apart = '^%d+ %d+ %d+ %d+ %d+ %d+ (%d+) ', wanted == notes
local last, more, values = found[2], #changed == 2 * most, {}
for index = 1, #changed, 2 do
  local value = redis.call('HGET', wanted, changed[index]) or ''
  values[#values + 1] = changed[index]
  values[#values + 1] = value
  last = changed[index + 1]
  budget = budget - (apart and tonumber(string.match(value, SIZE)) or #value)
  if budget <= 0 and index + 1 < #changed then
    more = true
    break
  end
end
local reply = {
  found[1], more and last or found[2], more and 'more' or '', void, generations, about,
  tostring(counts[1]), tostring(counts[2]), tostring(#removed),
}
for _, key in ipairs(removed) do reply[#reply + 1] = key end
for _, value in ipairs(values) do reply[#reply + 1] = value end
return reply
