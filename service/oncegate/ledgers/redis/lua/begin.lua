#!lua
-- Makes the list of namespaces where there is none; returns the id of the one that is there.
-- KEYS: list. ARGV: id.
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'id', ARGV[1], 'version', '0')
end
return redis.call('HGET', KEYS[1], 'id')
