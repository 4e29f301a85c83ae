-- Reads how long a log is, and where entries of it lie.
-- with: logs
-- flags: no-writes
-- KEYS 1 the index of its segments
-- ARGV 1 tag  2 log  3 first entry  4 most entries
-- Reply: the length, and rows (segment, first, last + 1 in it).

local length, rows = length_of(ARGV[1], ARGV[2]), {}
local first = tonumber(ARGV[3])
local stop = math.min(length, first + tonumber(ARGV[4]))
if first < stop then add_rows(ARGV[1], rows, ARGV[2], first, stop) end
return {tostring(length), rows}
