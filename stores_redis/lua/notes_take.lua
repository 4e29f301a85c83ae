-- Take in a piece of the batch that was decided for a namespace.
-- with: notes notes_writing
-- flags: allow-oom
--
-- KEYS  as in notes.lua
-- ARGV  1, 2 as in notes.lua  3 most notes to take
-- Reply "more"; "done" where this was the last piece, or there is none; or "again" and the
--       generations
--
-- A batch is a list: the fields of each note that is not taken in yet, as notes_writing.lua has
-- them, then its token, how many notes it had, the generation of its vectors or "", and the cap on
-- the namespace. What becomes of each piece is told in a list of its own, for the one who put it.
--
-- MEM-8: it was decided, so a server that is full does not refuse it; what it needs is there.

local HEAD, TOLD_FOR = 4, 3600

local left = redis.call('LLEN', batch)
if left == 0 then return {'done'} end
if is_outdated() then return {'again', generations} end
local token, whole, mine, cap = unpack(redis.call('LRANGE', batch, -HEAD, -1))
local waiting = (left - HEAD) / FIELDS
local count = math.min(waiting, tonumber(ARGV[3]))
local fields = redis.call('LRANGE', batch, 0, count * FIELDS - 1)
local function given(index) return unpack(fields, (index - 1) * FIELDS + 1, index * FIELDS) end
local standing = standing_of(given, count)
local told = string.match(KEYS[1], '^[^{]*{[^}]+}:') .. 'notes-told:' .. token
redis.call('LLEN', told)

-- The first write takes away, or a full server of version 6 would refuse the script.
redis.call('LTRIM', batch, count * FIELDS, -1)
local reply = {}
write(reply, given, count, standing, {
  token = token, before = tonumber(whole) - waiting, mine = mine, sent_to = mine,
  cap = tonumber(cap)
})
redis.call('RPUSH', told, table.concat(reply, ' '))
redis.call('EXPIRE', told, TOLD_FOR)
if count < waiting then return {'more'} end
redis.call('DEL', batch)
redis.call('SREM', pending, namespace)
return {'done'}
