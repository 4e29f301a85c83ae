-- Reads a header, and where the entries of its logs lie that are wanted.
-- with: logs headers
-- flags: no-writes
-- KEYS 1 the run
-- ARGV 1 tag  2 first message  3 most messages  4 first event  5 most events. A first of -n is
--      that of the newest n; a most of -1 is all.  6 "1" to have entries in the answer where they
--      are small
-- Reply: nothing for an unknown run; else the header's fields and values, then for messages and for
-- events the rows (segment, first, last + 1 in it) and the entries behind them.
-- RUN-L1, RUN-L2: counts and places are those of one instant; what lies below them never changes.

local FEW_ENTRIES, FEW_BYTES, MOST_BYTES = 64, 131072, 2097152

-- Takes the last row out, and gives its entries, if it is in the run's own last segment, whose size
-- is known. One more round trip would cost more than reading these through Lua.
local function take_small(tag, view, rows)
  local last = #rows
  if last == 0 or rows[last - 2] ~= view.seg or view.size > MOST_BYTES then return {} end
  if is_cut(view.seg) then return {} end
  local first, stop = tonumber(rows[last - 1]), tonumber(rows[last])
  if stop - first > FEW_ENTRIES and view.size > FEW_BYTES then return {} end
  local entries = redis.call('LRANGE', tag .. 'seg:' .. view.seg, first, stop - 1)
  if #entries ~= stop - first then return {} end -- who reads the row will say so
  rows[last], rows[last - 1], rows[last - 2] = nil, nil, nil
  return entries
end

local run, flat = header_of(KEYS[1])
if not run.token then return {} end
local tag = ARGV[1]
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
  reply[2 * index + 1] = ARGV[6] == '1' and take_small(tag, view, rows) or {}
  reply[2 * index] = rows
end
return reply
