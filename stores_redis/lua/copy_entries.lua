-- Copies entries into a staged segment, as many as one step may.
-- with: logs
-- KEYS 1 the segment to fill  2 what is staged
-- ARGV 1 tag  2 now  3 name of the segment to fill  4... rows of a source: segment, first,
--      last + 1, which are parts where the segment is one entry
-- Reply: "gone" where an entry is not there any more, else "copied", the number of rows taken, and
-- the entries and bytes that the segment got by it.
-- RUN-F12: for joins. Nothing refers to the segment before the join is committed.

local tag = ARGV[1]
local entries, rows, bytes, count = {}, 0, 0, 0
for index = 4, #ARGV, 3 do
  local first, stop = tonumber(ARGV[index + 1]), tonumber(ARGV[index + 2])
  if rows > 0 and (count + stop - first > SEGMENT_ENTRIES or bytes > SEGMENT_BYTES) then break end
  local part = redis.call('LRANGE', tag .. 'seg:' .. ARGV[index], first, stop - 1)
  if #part ~= stop - first then return {'gone'} end
  entries[#entries + 1] = part
  for _, entry in ipairs(part) do bytes = bytes + #entry end
  rows, count = rows + 1, count + #part
end
redis.call('LLEN', KEYS[1])
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[3])
for _, part in ipairs(entries) do
  for first = 1, #part, 1000 do
    redis.call('RPUSH', KEYS[1], unpack(part, first, math.min(#part, first + 999)))
  end
end
return {'copied', tostring(rows), tostring(count), tostring(bytes)}
