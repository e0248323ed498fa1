#!lua
-- Writes a piece of a snapshot, which no frame names yet, if the fence is the connection's own; returns its id.
-- KEYS: head, states. ARGV: fence, piece.
local fence = redis.call('HGET', KEYS[1], 'fence')
if not fence then
  return 'GONE'
end
if fence ~= ARGV[1] then
  return 'FENCED'
end
return redis.call('XADD', KEYS[2], '*', 'f', ARGV[2])
