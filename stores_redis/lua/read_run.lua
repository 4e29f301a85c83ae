-- Reads a header, and where the entries of its logs lie that are wanted.
-- with: logs headers
-- flags: no-writes
-- KEYS 1 the run
-- ARGV 1 tag  2 first message  3 most messages  4 first event  5 most events. A first of -n is that of
--      the newest n; a most of -1 is all.
-- Reply: nothing for an unknown run; else the header's fields and values, the rows (segment, first,
-- last + 1 in it) of the messages, and those of the events.
-- RUN-L1, RUN-L2: counts and places are those of one instant; what lies below them never changes.

local run = header_of(KEYS[1])
if not run.token then return {} end
local tag = ARGV[1]
local flat = {}
for name, value in pairs(run) do
  flat[#flat + 1] = name
  flat[#flat + 1] = value
end
local reply = {flat}
for index, kind in ipairs({'m', 'e'}) do
  local view = view_of(run, kind)
  local first, most = tonumber(ARGV[2 * index]), tonumber(ARGV[2 * index + 1])
  if first < 0 then first = math.max(0, view.count + first) end
  local stop = most < 0 and view.count or math.min(view.count, first + most)
  local rows, start = {}, 0
  if first < stop then
    for _, range in ipairs(ranges_of(view, view.count)) do
      local last = start + range[2]
      if start < stop and first < last then
        add_rows(tag, rows, range[1], math.max(0, first - start), math.min(range[2], stop - start))
      end
      start = last
    end
  end
  reply[index + 1] = rows
end
return reply
