-- Walks the index with the fewest runs of those given, and answers with headers.
-- with: headers
-- flags: no-writes
-- KEYS the indexes that a run must stand in
-- ARGV 1 tag  2 score and 3 id of the run to go on behind, or ""  4 most headers  5 most to look at
--      6 microseconds that a run must have been idle since, or ""  7 "1" for members alone
-- Reply: how many were looked at; the score and id that the walk ended behind, or ""; then for
-- each run its member, and its header's fields and values but for the ranges, or its score.
-- RUN-Q1, RUN-Q2, RUN-Q4: by rank, found by halving, so a page costs the page.

local tag, most, most_looked = ARGV[1], tonumber(ARGV[4]), tonumber(ARGV[5])
local index, fewest = KEYS[1], redis.call('ZCARD', KEYS[1])
for position = 2, #KEYS do
  local count = redis.call('ZCARD', KEYS[position])
  if count < fewest then index, fewest = KEYS[position], count end
end

-- Whether one id stands before another in a sorted set: by bytes, which Lua's own order is not.
local function is_after(id, other)
  for position = 1, math.min(#id, #other) do
    local one, two = string.byte(id, position), string.byte(other, position)
    if one ~= two then return one > two end
  end
  return #id > #other
end

local rank = 0
if ARGV[2] ~= '' then
  rank = redis.call('ZCOUNT', index, '-inf', '(' .. ARGV[2])
  local stop = redis.call('ZCOUNT', index, '-inf', ARGV[2])
  if ARGV[3] == '' then stop = rank end
  while rank < stop do
    local middle = math.floor((rank + stop) / 2)
    if is_after(parts_of(redis.call('ZRANGE', index, middle, middle)[1]), ARGV[3]) then
      stop = middle
    else
      rank = middle + 1
    end
  end
end

local function is_wanted(id, header)
  for _, key in ipairs(KEYS) do
    if key ~= index and not redis.call('ZSCORE', key, id) then return false end
  end
  return true
end

local reply, looked, size, last = {'', '', ''}, 0, 0, nil
local most_bytes = 524288
while last == nil or #reply < 3 + 2 * most and looked < most_looked and size < most_bytes do
  local chunk = math.min(100, most_looked - looked)
  local found = redis.call('ZRANGE', index, rank, rank + chunk - 1, 'WITHSCORES')
  if #found == 0 then break end
  for position = 1, #found, 2 do
    if #reply >= 3 + 2 * most or size >= most_bytes then break end
    local id = found[position]
    last = {found[position + 1], id}
    looked, rank = looked + 1, rank + 1
    if ARGV[7] == '1' then
      reply[#reply + 1], reply[#reply + 2] = id, {found[position + 1]}
    elseif is_wanted(id) then
      local header = redis.call('HGETALL', run_key(tag, id))
      local kept, updated = {}, nil
      for field = 1, #header, 2 do
        local name = header[field]
        if name == 'updated' then updated = header[field + 1] end
        if name ~= 'm.ranges' and name ~= 'e.ranges' then
          kept[#kept + 1] = name
          kept[#kept + 1] = header[field + 1]
          size = size + #name + #header[field + 1]
        end
      end
      if updated and (ARGV[6] == '' or tonumber(updated) < tonumber(ARGV[6])) then
        reply[#reply + 1] = id
        reply[#reply + 1] = kept
      end
    end
  end
end
reply[1] = tostring(looked)
if last and rank < fewest then reply[2], reply[3] = last[1], parts_of(last[2]) end
return reply
