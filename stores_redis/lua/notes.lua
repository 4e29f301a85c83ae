-- What every write to the notes of one namespace begins with.
--
-- KEYS  1 the batch that was decided  2 the namespaces that have one  3 memory  4 namespaces
--       5 namespaces by how many notes they hold  6 staged  7 notes  8 order  9 changes  10 gone
--       11 state  12 bodies
--       13.. vectors and vector set of each generation in ARGV 1, in that order
-- ARGV  1 the generations that the caller knows of, a space between them  2 the namespace
--
-- A record is a line of numbers, then the note's texts unless they are apart:
--   version created arrival updated serial metadata-bytes bytes id
-- `created` has 18 digits and `arrival` 16, so that they sort as text; together they are the place.
-- `id` is of this version of the note alone: texts that are apart are in `bodies` under it, and in
-- each generation its vector. So both can be sent before the step that makes them count.
--
-- Each change of a note takes the next serial of its namespace. Whoever follows a namespace asks
-- `changes` and `gone` what is newer than the serial that it has seen.

local batch, pending, memory, namespaces, counts, staged = unpack(KEYS, 1, 6)
local notes, order, changes, gone, state, bodies = unpack(KEYS, 7, 12)
local namespace = ARGV[2]
local RECORD = '^(%d+) (%d+) (%d+) %d+ %d+ %d+ %d+ (%S+)\n'
local GONE_KEPT, UNPACKED = 1000, 1000

local vectors, indexes, passed = {}, {}, 13
for generation in string.gmatch(ARGV[1], '%S+') do
  vectors[generation], indexes[generation] = KEYS[passed], KEYS[passed + 1]
  passed = passed + 2
end

-- A key of another type fails here, before anything is written.
redis.call('SCARD', pending)
for _, key in ipairs({namespaces, counts, staged, order, changes, gone}) do
  redis.call('ZCARD', key)
end
for _, key in ipairs({memory, notes, state, bodies}) do redis.call('HLEN', key) end
for _, key in pairs(vectors) do redis.call('HLEN', key) end

local generations = redis.call('HGET', memory, 'generations') or ''

-- Whether a generation is in use whose vectors the caller did not pass.
local function is_outdated()
  for generation in string.gmatch(generations, '%S+') do
    if not vectors[generation] then return true end
  end
  return false
end

local function text(number) return string.format('%.0f', number) end

-- Vectors are counted by namespace and by bucket, since those that were sent before do not count.
local function count_vectors(generation, by)
  if by == 0 then return end
  redis.call('HINCRBY', state, 'vectors:' .. generation, by)
  redis.call('HINCRBY', memory, 'vectors:' .. generation, by)
end

-- Free what versions of notes that are over had apart, at most 1,000 of them.
local function release(ids)
  if #ids == 0 then return end
  redis.call('HDEL', bodies, unpack(ids))
  for generation, key in pairs(vectors) do
    count_vectors(generation, -redis.call('HDEL', key, unpack(ids)))
  end
end

local function raise_floor(version)
  if version > tonumber(redis.call('HGET', memory, 'floor') or '0') then
    redis.call('HSET', memory, 'floor', text(version))
  end
end

-- Remove all that a namespace has but the count of its notes in the bucket. The first write takes
-- away, or a full server of version 6 would refuse it.
local function close_namespace()
  redis.call('ZREM', namespaces, namespace)
  for generation in pairs(vectors) do
    local count = tonumber(redis.call('HGET', state, 'vectors:' .. generation) or '0')
    count_vectors(generation, -count)
  end
  redis.call('ZREM', counts, namespace)
  redis.call('UNLINK', notes, order, changes, gone, state, bodies)
  for generation, key in pairs(vectors) do redis.call('UNLINK', key, indexes[generation]) end
end

-- Take notes away, at most 1,000; how many there were. No note starts at a version that one had.
local function forget(keys)
  local serial = tonumber(redis.call('HGET', state, 'serial') or '0')
  local found, places, ids, removed, highest = {}, {}, {}, {}, 0
  for at, record in ipairs(redis.call('HMGET', notes, unpack(keys))) do
    if record then
      local version, created, arrival, id = string.match(record, RECORD)
      serial = serial + 1
      found[#found + 1] = keys[at]
      places[#places + 1] = created .. arrival .. keys[at]
      ids[#ids + 1] = id
      removed[#removed + 1] = text(serial)
      removed[#removed + 1] = keys[at]
      highest = math.max(highest, tonumber(version))
    end
  end
  if #found == 0 then return 0 end
  redis.call('HDEL', notes, unpack(found))
  redis.call('ZREM', order, unpack(places))
  redis.call('ZREM', changes, unpack(found))
  redis.call('ZADD', gone, unpack(removed))
  release(ids)
  raise_floor(highest)
  redis.call('HINCRBY', memory, 'notes', -#found)
  local left = redis.call('HLEN', notes)
  if left == 0 then
    close_namespace()
    return #found
  end
  redis.call('ZADD', counts, left, namespace)
  redis.call('HSET', state, 'serial', text(serial))
  local surplus = redis.call('ZCARD', gone) - GONE_KEPT
  if surplus > 0 then
    local popped = redis.call('ZPOPMIN', gone, surplus)
    redis.call('HSET', state, 'forgotten', popped[#popped])
  end
  return #found
end
