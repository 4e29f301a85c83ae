-- Write notes of one namespace, all or none.
-- with: notes_settled notes notes_writing
--
-- KEYS  as in notes.lua
-- ARGV  1, 2 as in notes.lua  3 the caller's generation, or ""  4 its embedder
--       5 "strict": refuse where another embedder's vectors are in use; else write without vectors
--       6 the version expected of a single note, or ""  7 most notes of the namespace, 0: any
--       8 a token: the namespace's epoch if it is new; an id is this, a hyphen and a number from 1
--       9 how many notes, at most 500, then the fields of each as notes_writing.lua has them
-- Reply "ok" and what notes_writing.lua tells of them; or "conflict" and the version found; or
--       "embedder" and the one in use; or "again" and the generations; or "unsent"; or "pending"
--
-- MEM-1, MEM-2, MEM-6, MEM-8, MEM-9, MEM-11, EMB-5: a put is one step, its vectors and its place
-- included.

local mine, about, strict, expected, cap, token, count = unpack(ARGV, 3, 9)
cap, count = tonumber(cap), tonumber(count)

local function given(index) return unpack(ARGV, 10 + (index - 1) * FIELDS, 9 + index * FIELDS) end

if is_outdated() then return {'again', generations} end
if mine ~= '' and generations ~= '' then
  local active = string.match(generations, '^%S+')
  if active ~= mine then
    if strict ~= '' then return {'embedder', redis.call('HGET', memory, 'embedder:' .. active)} end
    mine = ''
  end
end

local standing = standing_of(given, count)
if expected ~= '' then
  local version = standing[1] and string.match(standing[1], RECORD) or '0'
  if version ~= expected then return {'conflict', version} end
end
local was_sent = false
for index = 1, count do
  local _, _, _, _, _, where, _, vector = given(index)
  local id = token .. '-' .. index
  if where == 'sent' then
    was_sent = true
    if redis.call('HEXISTS', bodies, id) == 0 then return {'unsent'} end
  end
  if vector == 'sent' then
    was_sent = true
    if mine ~= '' and redis.call('HEXISTS', vectors[mine], id) == 0 then return {'unsent'} end
  end
end

local reply = {'ok'}
write(reply, given, count, standing, {
  token = token, before = 0, mine = mine, sent_to = ARGV[3], cap = cap
})
if mine ~= '' and generations == '' then
  redis.call('HSET', memory, 'generations', mine, 'embedder:' .. mine, about)
end
if was_sent then
  local generation = ARGV[3] ~= '' and ARGV[3] or '-'
  redis.call('ZREM', staged, table.concat({token, count, generation, namespace}, ' '))
end
return reply
