#!lua flags=allow-oom
-- Deletes rows that no frame names any more, if the fence is the connection's own. A full server is to take it, too.
-- KEYS: head, rows. ARGV: fence, ids.
local fence = redis.call('HGET', KEYS[1], 'fence')
if not fence then
  return 'GONE'
end
if fence ~= ARGV[1] then
  return 'FENCED'
end
for number = 2, #ARGV do
  redis.call('XDEL', KEYS[2], ARGV[number])
end
return 'OK'
