-- Claims an id for a new, empty run.
-- with: headers
-- KEYS 1 the run  2 its keys
-- ARGV 1 tag  2 id  3 now  4 token  5 number of labels  6... key, name of its index, value of each
-- Reply: "created", "exists", or "away" where the id is claimed for a run in another bucket.
-- RUN-C2, RUN-C3, RUN-C4: the run is entered with its indexes in this one step, where none stands.

if redis.call('HLEN', KEYS[1]) > 0 then
  return {redis.call('HEXISTS', KEYS[1], 'away') == 1 and 'away' or 'exists'}
end
local tag, id, now = ARGV[1], ARGV[2], ARGV[3]
local labels = labels_given(6, tonumber(ARGV[5]))
local indexes = indexes_of(tag, '', labels)
look_at(indexes)
redis.call('HLEN', KEYS[2])
write_header(KEYS[1], {
  'token', ARGV[4], 'created', now, 'updated', now, 'm.count', 0, 'e.count', 0
}, labels)
redis.call('UNLINK', KEYS[2]) -- RUN-F10: whatever was left there is not this run's
enter(indexes, now, id)
return {'created'}
