-- A part of other scripts: headers of runs, and the indexes that list them.
--
-- A header is a hash. Its fields are `token` (new with each run that bears the id), `joined` (how
-- often its ranges were replaced), `created` and `updated` in microseconds, `parent`, `fork`,
-- `keys` (how many keyed batches it has seen), `imported`, those of its two logs, and for each
-- label ":" and its key, with the name of its index (32 characters), its place among the labels, a
-- space and the value.
--
-- A run whose data lies in another bucket than that of its id has there, under its id, a claim: a
-- hash whose only field is `away`, the bucket and token of its place. Where it lies, its member of
-- the indexes is the id, a NUL and the token. (A tenant of one bucket has none of these.)

local function encoded(name)
  return (string.gsub(name, '[%z\1-\32!{}:*?%[%]\\%%\127.]', function(c)
    return string.format('%%%02x', string.byte(c))
  end))
end

-- The id and the token in a member of an index; the token is nil where a run lies at home.
local function parts_of(member)
  local at = string.find(member, '\0', 1, true)
  if not at then return member, nil end
  return string.sub(member, 1, at - 1), string.sub(member, at + 1)
end

local function run_key(tag, member)
  local id, token = parts_of(member)
  return tag .. 'run:' .. (token and '.' .. token or encoded(id))
end

-- A header as a map, empty where there is no run, and as a list of fields and values.
local function header_of(key)
  local run, flat = {}, redis.call('HGETALL', key)
  for index = 1, #flat, 2 do run[flat[index]] = flat[index + 1] end
  return run, flat
end

-- The indexes that list a run of this parent with these labels (a map of ":key" to name and value).
local function indexes_of(tag, parent, labels)
  local keys = {tag .. 'runs'}
  if parent ~= '' then keys[#keys + 1] = tag .. 'forks:' .. encoded(parent) end
  for _, value in pairs(labels) do keys[#keys + 1] = tag .. 'label:' .. string.sub(value, 1, 32) end
  return keys
end

-- The labels in a header, as `indexes_of` wants them.
local function labels_of(run)
  local labels = {}
  for name, value in pairs(run) do
    if string.byte(name) == 58 then labels[name] = value end
  end
  return labels
end

local function label_text(name, place, value)
  return name .. place .. ' ' .. value
end

local function place_of(label)
  return tonumber(string.match(label, '^%d+', 33))
end

-- The labels in ARGV from `first` on: key, name of the index, value.
local function labels_given(first, count)
  local labels = {}
  for place = 1, count do
    local index = first + 3 * (place - 1)
    labels[':' .. ARGV[index]] = label_text(ARGV[index + 1], place, ARGV[index + 2])
  end
  return labels
end

-- The order is newest first, so that a score is minus a time.
local function score_of(created)
  return string.sub(created, 1, 1) == '-' and string.sub(created, 2) or '-' .. created
end

-- Says to sweep that a run came to be whose id is to be claimed elsewhere, or that one is no more.
local function note_birth(tag, member)
  local _, token = parts_of(member)
  if token then redis.call('ZADD', tag .. 'births', redis.call('TIME')[1], member) end
end

local function note_death(tag, member)
  local _, token = parts_of(member)
  if token then redis.call('SADD', tag .. 'deaths', member) end
end

local function look_at_notes(tag, member)
  local _, token = parts_of(member)
  if token then
    redis.call('ZCARD', tag .. 'births')
    redis.call('SCARD', tag .. 'deaths')
  end
end

local function look_at(indexes)
  for _, key in ipairs(indexes) do redis.call('ZCARD', key) end
end

local function enter(indexes, created, id)
  for _, key in ipairs(indexes) do redis.call('ZADD', key, score_of(created), id) end
end

local function remove(indexes, id)
  for _, key in ipairs(indexes) do redis.call('ZREM', key, id) end
end

-- Writes a header; `fields` is a flat list of names and values.
local function write_header(key, fields, labels)
  for name, value in pairs(labels) do
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  redis.call('HSET', key, unpack(fields))
end
