-- Remove notes of one namespace.
-- with: notes
-- flags: allow-oom
--
-- KEYS  as in notes.lua
-- ARGV  1, 2 as in notes.lua  3.. keys, at most 1,000
-- Reply "ok" and how many there were; or "again" and the generations
--
-- MEM-6: gone from listings, substring recall and embedding recall in one step.

if is_outdated() then return {'again', generations} end
local keys = {}
for index = 3, #ARGV do keys[#keys + 1] = ARGV[index] end
return {'ok', text(forget(keys))}
