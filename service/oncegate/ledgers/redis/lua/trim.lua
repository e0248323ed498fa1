#!lua flags=allow-oom
-- Deletes what a collection has replaced, if the fence is the connection's own. A full server is to take it, too.
-- KEYS: head, stream. ARGV: fence, first id that is needed.
local fence = redis.call('HGET', KEYS[1], 'fence')
if not fence then
  return 'GONE'
end
if fence ~= ARGV[1] then
  return 'FENCED'
end
redis.call('XTRIM', KEYS[2], 'MINID', '=', ARGV[2])
return 'OK'
