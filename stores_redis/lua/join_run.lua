-- Lets a run read joined ranges in place of those that were copied into them.
-- with: logs
-- KEYS 1 the run  2 what is staged
-- ARGV 1 tag  2 token of the run  3 "m" or "e"  4 the closed ranges that were seen
--      5 the log of the run's own that was seen, or ""  6 its length then, or "" where it goes on
--      being written to  7 number of new ranges  8... log and length of each, then, to the end, of
--      each staged segment its log, where it begins there, its name and its number of entries
-- Reply: "changed" where the run is not what was seen; "grown" and the length of its own log where
-- only that is longer, by much; "lost" where a segment is not there any more; "joined".
-- RUN-F12: readers see the same entries before and after.

local LATE_ROWS = 2

local tag, token, kind = ARGV[1], ARGV[2], ARGV[3]
local names = {'token', 'joined'}
for _, name in ipairs(LOG_FIELDS) do names[#names + 1] = kind .. '.' .. name end
local run, values = {}, redis.call('HMGET', KEYS[1], unpack(names))
for index, name in ipairs(names) do run[name] = values[index] or nil end
local view = view_of(run, kind)
if run.token ~= token or view.ranges ~= ARGV[4] or view.log ~= ARGV[5] then return {'changed'} end
local own_length, late = view.count - view.start, {}
local copied = ARGV[6] == '' and own_length or tonumber(ARGV[6])
if copied < own_length then add_rows(tag, late, view.log, copied, own_length) end
local ranges, kept, index = {}, {}, 8
for _ = 1, tonumber(ARGV[7]) do
  ranges[#ranges + 1] = {ARGV[index], tonumber(ARGV[index + 1])}
  kept[ARGV[index]] = true
  index = index + 2
end
local segments = {}
while index <= #ARGV do
  local name = ARGV[index + 2]
  if entries_in(tag, name) ~= tonumber(ARGV[index + 3])
    or not redis.call('ZSCORE', KEYS[2], name) then
    return {'lost'}
  end
  segments[#segments + 1] = {ARGV[index], tonumber(ARGV[index + 1]), name}
  index = index + 4
end
-- What came since it was copied comes along in this step if it is little, else later.
local last, batches = segments[#segments], {}
local is_little = own_length - copied <= SEGMENT_ENTRIES and #late <= 3 * LATE_ROWS
for row = 1, #late, 3 do
  if not is_little or is_cut(late[row]) or is_cut(last[3]) then
    return {'grown', tostring(own_length)}
  end
  local batch = redis.call('LRANGE', tag .. 'seg:' .. late[row], late[row + 1], late[row + 2] - 1)
  if #batch ~= late[row + 2] - late[row + 1] then return {'changed'} end
  batches[#batches + 1] = batch
end
local left = {}
for _, range in ipairs(ranges_of(view, view.count)) do
  if not kept[range[1]] and (range[1] ~= view.log or ARGV[6] ~= '') then
    left[#left + 1] = range
  end
end
look_at_logs(tag, left)
look_at_logs(tag, ranges)

ranges[#ranges][2] = ranges[#ranges][2] + own_length - copied
local fields = {
  'joined', tonumber(run.joined or '0') + 1, kind .. '.ranges', joined_text(ranges)
}
if ARGV[6] ~= '' then
  fields[#fields + 1] = kind .. '.log'
  fields[#fields + 1] = ''
end
redis.call('HSET', KEYS[1], unpack(fields))
for _, batch in ipairs(batches) do
  for first = 1, #batch, 1000 do
    local stop = math.min(#batch, first + 999)
    redis.call('RPUSH', tag .. 'seg:' .. last[3], unpack(batch, first, stop))
  end
end
for _, segment in ipairs(segments) do
  add_segment(tag, segment[1], segment[2], segment[3])
  redis.call('ZREM', KEYS[2], segment[3])
end
use_ranges(tag, ranges, token)
for _, range in ipairs(left) do leave_log(tag, range[1], token) end
return {'joined'}
