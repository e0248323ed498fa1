#!lua flags=allow-oom
-- Takes a ledger, if nobody has taken it since its fence was read. Each connection that appends has a fence of its own:
-- what an older one has sent, and arrives later, is refused.
-- KEYS: head. ARGV: ledger, fence that was read, holder.
local head = redis.call('HMGET', KEYS[1], 'ledger', 'fence')
if not head[1] then
  return {'GONE'}
end
if head[1] ~= ARGV[1] then
  return {'FOREIGN'}
end
if head[2] ~= ARGV[2] then
  return {'CHANGED'}
end
local fence = redis.call('HINCRBY', KEYS[1], 'fence', 1)
redis.call('HSET', KEYS[1], 'holder', ARGV[3])
local now = redis.call('HMGET', KEYS[1], 'serial', 'position', 'chain')
return {'OK', tostring(fence), now[1], now[2], now[3]}
