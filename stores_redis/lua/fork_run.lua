-- Starts a run as a prefix of another, in one step.
-- with: logs headers
-- KEYS 1 the source  2 the new run  3 the keys of the new run
-- ARGV 1 tag  2 id of the source  3 member of the new run  4 messages to take, 0 for all  5 now
--      6 token  7 number of labels, or "" to take the source's  8... key, name of its index, value
--      of each
-- Reply: "away" where the new id is claimed for a run in another bucket; else "unknown" or "known"
-- (the source), then the lineage of the run that stands at the new id, if one does; "join" and the
-- log of which the source has too many ranges; "forked" and the fork point.
-- RUN-F1 to RUN-F9: at a cost that follows the number of ranges, which is at most 64.

local source = header_of(KEYS[1])
local standing = redis.call('HMGET', KEYS[2], 'token', 'parent', 'fork', 'away')
if standing[4] then return {'away'} end
if not source.token or standing[1] then
  local reply = {source.token and 'known' or 'unknown'}
  if standing[1] then
    reply[2], reply[3] = standing[2] or '', standing[3] or '0'
  end
  return reply
end
local tag, now, token = ARGV[1], ARGV[5], ARGV[6]
local messages, events = view_of(source, 'm'), view_of(source, 'e')
local count, event_count = tonumber(ARGV[4]), 0
if count == 0 or count >= messages.count then
  count, event_count = messages.count, events.count
end
local taken = {ranges_of(messages, count), ranges_of(events, event_count)}
for index, kind in ipairs({'m', 'e'}) do
  if #taken[index] >= MAX_RANGES then return {'join', kind} end
  look_at_logs(tag, taken[index])
end
local labels = ARGV[7] == '' and labels_of(source) or labels_given(8, tonumber(ARGV[7]))
local indexes = indexes_of(tag, ARGV[2], labels)
look_at(indexes)
redis.call('HLEN', KEYS[3])
look_at_notes(tag, ARGV[3])

write_header(KEYS[2], {
  'token', token, 'created', now, 'updated', now, 'parent', ARGV[2], 'fork', count,
  'm.count', count, 'm.ranges', joined_text(taken[1]),
  'e.count', event_count, 'e.ranges', joined_text(taken[2])
}, labels)
redis.call('UNLINK', KEYS[3]) -- RUN-F10: whatever was left there is not this run's
enter(indexes, now, ARGV[3])
note_birth(tag, ARGV[3])
for index, view in ipairs({messages, events}) do
  for _, range in ipairs(taken[index]) do
    if range[1] == view.log then -- from now on its owner is not alone
      redis.call('ZADD', tag .. 'users:' .. view.log, OPEN, source.token)
    end
  end
  use_ranges(tag, taken[index], token)
end
return {'forked', tostring(count)}
