-- Candidates for a query: what the vector set of a namespace proposes, and all that it does not
-- know yet.
-- with: notes_settled
-- flags: no-writes
--
-- KEYS  1 the batch that was decided  2 memory  3 state  4 changes  5 notes  6 vectors
--       7 the vector set
-- ARGV  1 the generation  2 the query's vector  3 how many to propose  4 how many to keep at hand
--       while searching  5 a filter, or ""  6 most that it may not know
-- Reply "ok", the generations, the embedder in use or "", the serial of this instant, how many
--       notes and how many vectors there are, then key, first line of the record and vector of
--       each, "" where there is none;
--       or "none" where there is no set; or "behind"
--
-- EMB-3: the caller scores and filters what is proposed by the stored vectors.

local memory, state, changes, notes, vectors, index = unpack(KEYS, 2)
local generation, query, count, breadth, filter, most = unpack(ARGV)
if redis.call('EXISTS', index) == 0 then return {'none'} end
local found =
  redis.call('HMGET', state, 'serial', 'indexed:' .. generation, 'vectors:' .. generation)
local new = redis.call(
  'ZRANGEBYSCORE', changes, '(' .. (found[2] or '0'), '+inf', 'LIMIT', 0, most + 1
)
if #new > tonumber(most) then return {'behind'} end
local proposed
if filter == '' then
  proposed = redis.call('VSIM', index, 'FP32', query, 'COUNT', count, 'EF', breadth)
else
  proposed = redis.call(
    'VSIM', index, 'FP32', query, 'COUNT', count, 'EF', breadth, 'FILTER', filter,
    'FILTER-EF', '1000'
  )
end
local generations = redis.call('HGET', memory, 'generations') or ''
local active = string.match(generations, '^%S+')
local reply = {
  'ok', generations, active and redis.call('HGET', memory, 'embedder:' .. active) or '',
  found[1] or '0', tostring(redis.call('HLEN', notes)), found[3] or '0',
}
local seen = {}
for _, keys in ipairs({new, proposed}) do
  for _, key in ipairs(keys) do
    if not seen[key] then
      seen[key] = true
      reply[#reply + 1] = key
      local line = string.match(redis.call('HGET', notes, key) or '', '^[^\n]*\n') or ''
      local id = string.match(line, '(%S+)\n$')
      reply[#reply + 1] = line
      reply[#reply + 1] = id and redis.call('HGET', vectors, id) or ''
    end
  end
end
return reply
