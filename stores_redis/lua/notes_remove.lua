-- Remove a note.
-- with: notes_settled notes
-- flags: allow-oom
--
-- KEYS  as in notes.lua
-- ARGV  1, 2 as in notes.lua  3 the key  4 the version that it must have, or ""
-- Reply "ok" and how many there were; "conflict" where it has another; or "again" and the
--       generations; or "pending"
--
-- MEM-6: gone from listings, substring recall and embedding recall in one step.
-- MEM-14: the version is compared in that step.

if is_outdated() then return {'again', generations} end
local key, expected = ARGV[3], ARGV[4]
if expected ~= '' then
  local record = redis.call('HGET', notes, key)
  if record and string.match(record, RECORD) ~= expected then return {'conflict'} end
end
return {'ok', text(forget({key}))}
