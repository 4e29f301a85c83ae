-- A part of other scripts: what reading or writing the notes of one namespace begins with.
--
-- KEYS  1 the batch that was decided and is not taken in yet
-- Reply "pending" where there is one: whoever is told so takes it in first, see notes_take.lua

if redis.call('EXISTS', KEYS[1]) == 1 then return {'pending'} end
