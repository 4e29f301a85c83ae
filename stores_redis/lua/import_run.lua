-- Enters a run that an import brings, with its header, ranges and keys, in place of one that an
-- earlier import left at the id.
-- with: logs headers
-- KEYS 1 the run  2 its keys
-- ARGV 1 tag  2 member  3 token  4 token of the run that was seen at the id, or ""  5 created
--      6 updated  7 parent or ""  8 fork point  9 messages  10 events
--      11 number of ranges of messages  12 of events  13 of labels  14 of keys
--      15... log and length of each range; key, name of its index and value of each label; each
--      key, oldest first, with its record
-- Reply: "changed" where another run, or one that was changed here, stands at the id; "short" and
-- the log, the index of the range and how many entries are there; "imported".
-- MOVE-1, MOVE-2: the run comes to be, or becomes another, in this one step.

local tag, id, token, created = ARGV[1], ARGV[2], ARGV[3], ARGV[5]
local old = header_of(KEYS[1])
if old.away or (old.token or '') ~= ARGV[4] then return {'changed'} end
if old.token and old.imported ~= '1' then return {'changed'} end
local index, taken, used = 15, {{}, {}}, {}
for which, kind in ipairs({'m', 'e'}) do
  for number = 1, tonumber(ARGV[10 + which]) do
    local range = {ARGV[index], tonumber(ARGV[index + 1])}
    local there = length_of(tag, range[1])
    if there < range[2] then return {'short', kind, tostring(number - 1), tostring(there)} end
    taken[which][number], index = range, index + 2
  end
  look_at_logs(tag, taken[which])
end
local labels = labels_given(index, tonumber(ARGV[13]))
index = index + 3 * tonumber(ARGV[13])
local parent = ARGV[7]
local indexes, left = indexes_of(tag, parent, labels), {}
look_at(indexes)
look_at_notes(tag, id)
redis.call('HLEN', KEYS[2])
if old.token then
  left = indexes_of(tag, old.parent or '', labels_of(old))
  look_at(left)
  for _, kind in ipairs({'m', 'e'}) do
    local view = view_of(old, kind)
    for _, range in ipairs(ranges_of(view, view.count)) do used[#used + 1] = range end
  end
  look_at_logs(tag, used)
end

use_ranges(tag, taken[1], token)
use_ranges(tag, taken[2], token)
redis.call('UNLINK', KEYS[1], KEYS[2])
remove(left, id)
write_header(KEYS[1], {
  'token', token, 'created', created, 'updated', ARGV[6], 'parent', parent, 'fork', ARGV[8],
  'm.count', ARGV[9], 'm.ranges', joined_text(taken[1]),
  'e.count', ARGV[10], 'e.ranges', joined_text(taken[2]),
  'keys', ARGV[14], 'imported', '1'
}, labels)
enter(indexes, created, id)
if not old.token then note_birth(tag, id) end
for number = 0, tonumber(ARGV[14]) - 1 do
  redis.call('HSET', KEYS[2], 's' .. number, ARGV[index], 'k' .. ARGV[index], ARGV[index + 1])
  index = index + 2
end
for _, range in ipairs(used) do leave_log(tag, range[1], old.token) end
return {'imported'}
