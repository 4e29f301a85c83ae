-- Frees, from the end, entries of a log that nobody needs.
-- with: logs
-- flags: allow-oom
-- KEYS 1 what may be trimmed
-- ARGV 1 tag  2 log  3 most entries to free
-- Reply: how many were freed, and "more" or "done".
-- RUN-D2: what the longest of the log's users needs stays.

local tag, log, budget = ARGV[1], ARGV[2], tonumber(ARGV[3])
local segs, users = tag .. 'segs:' .. log, tag .. 'users:' .. log
local top = redis.call('ZREVRANGE', users, 0, 0, 'WITHSCORES')
local need = #top > 0 and tonumber(top[2]) or 0
redis.call('SCARD', KEYS[1])
redis.call('ZCARD', tag .. 'staged')
local freed, looked = 0, 0
while true do
  local last = redis.call('ZREVRANGE', segs, 0, 0, 'WITHSCORES')
  local name, from = last[1] or log, tonumber(last[2] or '0')
  local key = tag .. 'seg:' .. name
  local length = entries_in(tag, name)
  local surplus = math.min(length, from + length - need)
  if surplus <= 0 and (from < need or #last == 0) then break end
  looked = looked + 1
  if freed >= budget or looked > FREED_AT_ONCE then return {tostring(freed), 'more'} end
  local count = math.min(math.max(surplus, 0), budget - freed)
  if count == length then
    redis.call('UNLINK', key)
    if #last > 0 then redis.call('ZREM', segs, name) end
  else
    redis.call('LTRIM', key, 0, length - count - 1)
  end
  freed = freed + count
end
if #top == 0 then redis.call('UNLINK', segs, tag .. 'seg:' .. log) end
redis.call('SREM', KEYS[1], log)
redis.call('ZREM', tag .. 'staged', 'log ' .. log)
return {tostring(freed), 'done'}
