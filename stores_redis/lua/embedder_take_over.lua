-- Use the vectors of one generation from now on, if no note lacks one.
--
-- KEYS  1 memory  2 the namespaces that have a batch that was decided
-- ARGV  1 the generation  2 its embedder  3 the generations that the caller knows of
-- Reply "done" and the generations that are to be freed; or "lacking"; or "again" and the
--       generations; or "pending" and some of these namespaces
--
-- EMB-5: one step for all notes of the bucket.

local memory, generation = KEYS[1], ARGV[1]
local counted = 'vectors:' .. generation
local found = redis.call('HMGET', memory, 'generations', 'notes', counted, 'retired')
local generations, retired = found[1] or '', found[4] or ''
if generations ~= ARGV[3] then return {'again', generations} end
local waiting = redis.call('SRANDMEMBER', KEYS[2], 10)
if #waiting > 0 then return {'pending', unpack(waiting)} end
if tonumber(found[2] or '0') ~= tonumber(found[3] or '0') then return {'lacking'} end
local others = {}
for one in string.gmatch(generations, '%S+') do
  if one ~= generation then others[#others + 1] = one end
end
redis.call('HSET', memory, 'generations', generation, 'embedder:' .. generation, ARGV[2])
for _, one in ipairs(others) do
  redis.call('HDEL', memory, 'embedder:' .. one, 'vectors:' .. one)
  retired = retired == '' and one or retired .. ' ' .. one
end
if #others > 0 then redis.call('HSET', memory, 'retired', retired) end
return {'done', retired}
