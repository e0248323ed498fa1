#!lua
-- Appends a frame and its rows, if the fence is the connection's own and the frame follows the last one: all or nothing.
-- Everything is looked at before the first write, and a server without room refuses before it begins.
-- KEYS: head, frames, rows.
-- ARGV: fence, serial and chain before; serial, position and chain behind; frame; count of rows, rows, ids of rows to drop.
local head = redis.call('HMGET', KEYS[1], 'fence', 'serial', 'chain')
if not head[1] then
  return 'GONE'
end
if head[1] ~= ARGV[1] then
  return 'FENCED'
end
if head[2] ~= ARGV[2] or head[3] ~= ARGV[3] then
  return 'OTHER'
end
redis.call('XADD', KEYS[2], ARGV[4] .. '-0', 'f', ARGV[7])
local rows = tonumber(ARGV[8])
for number = 1, rows do
  redis.call('XADD', KEYS[3], ARGV[4] .. '-' .. number, 'f', ARGV[8 + number])
end
for number = 9 + rows, #ARGV do
  redis.call('XDEL', KEYS[3], ARGV[number])
end
redis.call('HSET', KEYS[1], 'serial', ARGV[4], 'position', ARGV[5], 'chain', ARGV[6])
return 'OK'
