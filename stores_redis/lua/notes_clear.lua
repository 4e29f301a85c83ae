-- Remove all notes of one namespace, in a time that does not depend on how many there are.
-- with: notes_settled notes
-- flags: allow-oom
--
-- KEYS  as in notes.lua
-- ARGV  as in notes.lua
-- Reply "ok" and how many there were; or "again" and the generations; or "pending"
--
-- MEM-12; MEM-6: a later note of the same key starts above the highest version of any.

if is_outdated() then return {'again', generations} end
local count = redis.call('HLEN', notes)
if count > 0 then
  local top = tonumber(redis.call('HGET', state, 'top') or '0')
  close_namespace()
  redis.call('HINCRBY', memory, 'notes', -count)
  raise_floor(top)
end
return {'ok', text(count)}
