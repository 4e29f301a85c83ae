-- Keep vectors of notes that are still of the version that was embedded.
-- with: notes_settled
--
-- KEYS  1 the batch that was decided  2 memory  3 notes  4 changes  5 state
--       6 vectors of the generation
-- ARGV  1 the generation  2 its embedder  3 the generations that the caller knows of
--       4.. for each note: key, id, vector
-- Reply "ok" and how many were kept; or "again" and the generations
--
-- EMB-5: a vector belongs to one version of a note. A generation that is not in use is filled
-- beside the one that is.

local memory, notes, changes, state, vectors = unpack(KEYS, 2)
local generation, about = ARGV[1], ARGV[2]
local generations = redis.call('HGET', memory, 'generations') or ''
if generations ~= ARGV[3] then return {'again', generations} end
local is_there = false
for one in string.gmatch(generations, '%S+') do is_there = is_there or one == generation end
for _, key in ipairs({notes, state, vectors}) do redis.call('HLEN', key) end
redis.call('ZCARD', changes)
if not is_there then
  generations = generations == '' and generation or generations .. ' ' .. generation
  redis.call('HSET', memory, 'generations', generations, 'embedder:' .. generation, about)
end

local is_active = string.match(generations, '^%S+') == generation
local serial, kept, added = tonumber(redis.call('HGET', state, 'serial') or '0'), 0, 0
for index = 4, #ARGV, 3 do
  local key, id, vector = unpack(ARGV, index, index + 2)
  local record = redis.call('HGET', notes, key)
  if record and string.match(record, '^%d+ %d+ %d+ %d+ %d+ %d+ %d+ (%S+)\n') == id then
    added = added + redis.call('HSET', vectors, id, vector)
    kept = kept + 1
    if is_active then
      serial = serial + 1
      redis.call('ZADD', changes, string.format('%.0f', serial), key)
    end
  end
end
if added > 0 then
  redis.call('HINCRBY', state, 'vectors:' .. generation, added)
  redis.call('HINCRBY', memory, 'vectors:' .. generation, added)
end
if is_active and kept > 0 then
  redis.call('HSET', state, 'serial', string.format('%.0f', serial))
end
return {'ok', tostring(kept)}
