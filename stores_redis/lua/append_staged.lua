-- Appends one batch that was staged in segments: they become part of the run's logs by reference.
-- with: logs appending
-- KEYS 1 the run  2 its keys
-- ARGV 1 to 7 as in appending.lua  8 number of segments of messages  9 of events
--      10... name, number of entries, bytes of each
-- Reply: as of append.lua; also "lost" where a staged segment is not there any more.
-- RUN-A1 to RUN-A11, at a cost that follows the number of segments.

local answer, values = refusal()
if answer then return answer end
if ARGV[6] ~= '' then redis.call('HLEN', KEYS[2]) end
local tag = ARGV[1]
local staged = tag .. 'staged'

local function placed(at, first, pieces)
  if pieces == 0 then return nil, nil end
  local view = needed_view(values, at)
  local problem = open_log(tag, view, ARGV[3] .. view.kind)
  if problem then return problem, nil end
  redis.call('ZCARD', tag .. 'segs:' .. view.log)
  view.pieces, view.is_new = {}, true
  for index = first, first + 3 * pieces - 1, 3 do
    local name, count = ARGV[index], tonumber(ARGV[index + 1])
    if entries_in(tag, name) ~= count or not redis.call('ZSCORE', staged, name) then
      return {'lost'}, nil
    end
    view.seg, view.from = name, view.count - view.start
    view.size = tonumber(ARGV[index + 2])
    view.pieces[#view.pieces + 1] = {name, view.from}
    view.count = view.count + count
  end
  return nil, view
end

local of_messages, of_events = tonumber(ARGV[8]), tonumber(ARGV[9])
local problem, messages = placed(3, 10, of_messages)
if problem then return problem end
local events
problem, events = placed(10, 10 + 3 * of_messages, of_events)
if problem then return problem end

local counts = claim(values, messages, events)
local function refer(view)
  if not view then return end
  for _, piece in ipairs(view.pieces) do
    add_segment(tag, view.log, piece[2], piece[1])
    redis.call('ZREM', staged, piece[1])
  end
end
refer(messages)
refer(events)
return {'done', counts[1], counts[2]}
