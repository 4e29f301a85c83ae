-- Decide a batch of notes that was laid out: from here on it counts, and is taken in by whoever
-- meets it first.
-- with: notes_settled notes
--
-- KEYS  as in notes.lua, then the batch as it was laid out
-- ARGV  1, 2 as in notes.lua  3 the caller's generation, or ""  4 its embedder  5 the batch's token
--       6 how many notes  7 how many items it has
-- Reply "ok"; or "embedder" and the one in use; or "again" and the generations; or "unsent"; or
--       "pending"
--
-- MEM-8, ALL-6: one step, however large the batch is. Until all of it is taken in, nobody reads.

local mine, about, token, count = unpack(ARGV, 3, 6)
local laid = KEYS[#KEYS]
local entry = table.concat({token, count, mine ~= '' and mine or '-', namespace}, ' ')

if is_outdated() then return {'again', generations} end
local active = string.match(generations, '^%S+')
if mine ~= '' and active and active ~= mine then
  return {'embedder', redis.call('HGET', memory, 'embedder:' .. active)}
end
if redis.call('LLEN', laid) ~= tonumber(ARGV[7]) or not redis.call('ZSCORE', staged, entry) then
  return {'unsent'}
end

redis.call('SADD', pending, namespace)
if mine ~= '' and generations == '' then
  redis.call('HSET', memory, 'generations', mine, 'embedder:' .. mine, about)
end
redis.call('RENAME', laid, batch)
redis.call('ZREM', staged, entry)
return {'ok'}
