#!lua flags=no-writes
-- Reads a stream on, so many bytes at a time: one record at least, where there is one. Returns ids and bytes in turns.
-- KEYS: stream. ARGV: first id, last id, bytes.
local found, size, from = {}, 0, ARGV[1]
local most = tonumber(ARGV[3])
while size < most do
  local record = redis.call('XRANGE', KEYS[1], from, ARGV[2], 'COUNT', 1)[1]
  if not record then
    break
  end
  found[#found + 1] = record[1]
  found[#found + 1] = record[2][2]
  size = size + #record[2][2]
  from = '(' .. record[1]
end
return found
