-- Remove the count of notes by namespace of a bucket.
-- with: step_fence
--
-- KEYS  1 as in step_fence.lua  2 namespaces by how many notes they hold
--       3 namespaces with a batch that was decided
-- ARGV  1 as in step_fence.lua
-- Reply "done"; "pending" where a batch is to be taken in first; or "lost"

if redis.call('EXISTS', KEYS[3]) == 1 then return {'pending'} end
redis.call('UNLINK', KEYS[2])
return {'done'}
