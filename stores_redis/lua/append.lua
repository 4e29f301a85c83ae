-- Appends one batch that is small enough to come with the call.
-- with: logs appending
-- KEYS 1 the run  2 its keys
-- ARGV 1 to 7 as in appending.lua  8 number of messages  9 their bytes  10 number of events
--      11 their bytes  12... the messages, then the events; 1,000 at most
-- Reply: "unknown"; "known" and digest, counts; "conflict" and counts; "done" and counts; "join"
-- and the log of which the run reads too many ranges; "damaged", the log and the position.
-- RUN-A1 to RUN-A11: all checks, then counts, key and entries of both logs in this one step.

local answer, values = refusal()
if answer then return answer end
if ARGV[6] ~= '' then redis.call('HLEN', KEYS[2]) end
local tag = ARGV[1]

-- Where a batch goes. A full segment is closed and the next one begun.
local function placed(at, count, size)
  if count == 0 then return nil, nil end
  local view = needed_view(values, at)
  local problem = open_log(tag, view, ARGV[3] .. view.kind)
  if problem then return problem, nil end
  local length = view.count - view.start
  if length - view.from >= SEGMENT_ENTRIES or view.size >= SEGMENT_BYTES then
    view.seg, view.from, view.size = view.log .. ':' .. length, length, 0
    view.is_new = true
    redis.call('ZCARD', tag .. 'segs:' .. view.log)
    if redis.call('LLEN', tag .. 'seg:' .. view.seg) > 0 then
      return {'damaged', view.kind, tostring(view.count)}, nil
    end
  end
  view.count, view.size = view.count + count, view.size + size
  return nil, view
end

local message_count, event_count = tonumber(ARGV[8]), tonumber(ARGV[10])
local problem, messages = placed(3, message_count, tonumber(ARGV[9]))
if problem then return problem end
local events
problem, events = placed(10, event_count, tonumber(ARGV[11]))
if problem then return problem end

local counts = claim(values, messages, events)
local function push(view, first, count)
  if not view then return end
  if view.is_new then add_segment(tag, view.log, view.from, view.seg) end
  redis.call('RPUSH', tag .. 'seg:' .. view.seg, unpack(ARGV, first, first + count - 1))
end
push(messages, 12, message_count)
push(events, 12 + message_count, event_count)
return {'done', counts[1], counts[2]}
