-- Take into a namespace's vector set what changed since it was brought up to date, a piece at a
-- time.
-- with: notes_settled
--
-- KEYS  1 the batch that was decided  2 state  3 changes  4 gone  5 notes  6 vectors
--       7 the vector set
-- ARGV  1 the generation  2 bytes of a vector  3 most vectors of a piece
--       4 "begin" to make the set where there is none, "on" for a further piece of that, or ""
--       5.. keys that the set proposed though no note has them
-- Reply "more" or "", and how many vectors were taken in
--
-- EMB-4: whatever changed up to the serial `indexed` is in the set as it is stored. The set only
-- proposes, so one that holds too much, or an old vector, makes no answer wrong.

local state, changes, gone, notes, vectors, index = unpack(KEYS, 2)
local generation, size, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local function vector_of(key)
  local record = redis.call('HGET', notes, key)
  local id = record and string.match(record, '^%d+ %d+ %d+ %d+ %d+ %d+ %d+ (%S+)\n')
  return id and redis.call('HGET', vectors, id)
end

local found = redis.call(
  'HMGET', state, 'epoch', 'indexed:' .. generation, 'cleaned:' .. generation
)
if not found[1] then return {'', '0'} end
local indexed, cleaned = found[2] or '0', found[3] or '0'
if redis.call('EXISTS', index) == 0 then
  if ARGV[4] == '' then return {'', '0'} end
  if ARGV[4] == 'begin' then indexed, cleaned = '0', '0' end
end

for at = 5, #ARGV do
  if not vector_of(ARGV[at]) then redis.call('VREM', index, ARGV[at]) end
end
local removed =
  redis.call('ZRANGEBYSCORE', gone, '(' .. cleaned, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
for at = 1, #removed, 2 do
  redis.call('VREM', index, removed[at])
  cleaned = removed[at + 1]
end
-- The set squares floats, so a very long or short vector is scaled; nil for a zero vector, which
-- has no direction that a set could know.
local function fit(data)
  local numbers = {struct.unpack('<' .. string.rep('f', size / 4), string.sub(data, 1, size))}
  local sum = 0
  for at = 1, size / 4 do sum = sum + numbers[at] * numbers[at] end
  if sum == 0 then return nil end
  if sum > 1e-20 and sum < 1e30 then return string.sub(data, 1, size) end
  local length = math.sqrt(sum)
  for at = 1, size / 4 do numbers[at] = numbers[at] / length end
  return struct.pack('<' .. string.rep('f', size / 4), unpack(numbers, 1, size / 4))
end

local changed =
  redis.call('ZRANGEBYSCORE', changes, '(' .. indexed, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
local taken = 0
for at = 1, #changed, 2 do
  local key = changed[at]
  local data = vector_of(key)
  local vector = data and fit(data)
  if vector then
    local digests = {}
    for from = size + 1, #data, 16 do
      local hex = string.gsub(string.sub(data, from, from + 15), '.', function(one)
        return string.format('%02x', string.byte(one))
      end)
      digests[#digests + 1] = '"' .. hex .. '"'
    end
    redis.call(
      'VADD', index, 'FP32', vector, key, 'Q8',
      'SETATTR', '{"where":[' .. table.concat(digests, ',') .. ']}'
    )
    taken = taken + 1
  else
    redis.call('VREM', index, key)
  end
  indexed = changed[at + 1]
end
redis.call('HSET', state, 'indexed:' .. generation, indexed, 'cleaned:' .. generation, cleaned)
local more = #removed == 2 * most or #changed == 2 * most
return {more and 'more' or '', tostring(taken)}
