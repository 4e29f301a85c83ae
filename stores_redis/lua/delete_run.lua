-- Removes a run. What only it needed goes with it; what is many is left to sweep.
-- with: logs headers
-- flags: allow-oom
-- KEYS 1 the run  2 its keys
-- ARGV 1 tag  2 member  3 messages expected or ""  4 events expected or ""
-- Reply: "unknown", "conflict" or "deleted".
-- RUN-D1 to RUN-D5: the header, which is what makes a run, goes first.

local run = header_of(KEYS[1])
if not run.token then return {'unknown'} end
if (ARGV[3] ~= '' and ARGV[3] ~= run['m.count'])
  or (ARGV[4] ~= '' and ARGV[4] ~= run['e.count']) then
  return {'conflict'}
end
local tag = ARGV[1]
local indexes = indexes_of(tag, run.parent or '', labels_of(run))
local used = {}
for _, kind in ipairs({'m', 'e'}) do
  local view = view_of(run, kind)
  for _, range in ipairs(ranges_of(view, view.count)) do used[#used + 1] = range end
end
look_at(indexes)
look_at_logs(tag, used)
look_at_notes(tag, ARGV[2])

redis.call('DEL', KEYS[1])
redis.call('UNLINK', KEYS[2])
remove(indexes, ARGV[2])
note_death(tag, ARGV[2])
for _, range in ipairs(used) do leave_log(tag, range[1], run.token) end
return {'deleted'}
