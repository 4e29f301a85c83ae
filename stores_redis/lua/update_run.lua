-- Changes labels of a run.
-- with: headers
-- KEYS 1 the run
-- ARGV 1 tag  2 member  3 now  4 most labels  5... key, name of its index, value of each; a name
--      of "" removes the label
-- Reply: "unknown"; "many" and the number of labels there would be; "updated".
-- RUN-U1: merged in this step, so no update undoes another.

local run = header_of(KEYS[1])
if not run.token then return {'unknown'} end
if #ARGV == 4 then return {'updated'} end
local tag = ARGV[1]
local labels, gone, new, removed, last = labels_of(run), {}, {}, {}, 0
for _, label in pairs(labels) do last = math.max(last, place_of(label)) end
for index = 5, #ARGV, 3 do
  local field, name = ':' .. ARGV[index], ARGV[index + 1]
  local old = labels[field]
  gone[field], labels[field] = old, nil
  if name ~= '' then
    if not old then last = last + 1 end
    new[field] = label_text(name, old and place_of(old) or last, ARGV[index + 2])
    labels[field] = new[field]
  elseif old then
    removed[#removed + 1] = field
  end
end
local count = 0
for _ in pairs(labels) do count = count + 1 end
if count > tonumber(ARGV[4]) then return {'many', tostring(count)} end
local left, entered = indexes_of(tag, '', gone), indexes_of(tag, '', new)
look_at(left)
look_at(entered)

write_header(KEYS[1], {'updated', ARGV[3], 'imported', ''}, new)
if #removed > 0 then redis.call('HDEL', KEYS[1], unpack(removed)) end
remove(left, ARGV[2])
enter(entered, run.created, ARGV[2])
return {'updated'}
