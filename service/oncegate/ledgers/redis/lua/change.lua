#!lua
-- Changes the list of namespaces, if nobody has changed it since it was read: two that do so at once decide on one list.
-- KEYS: list. ARGV: id of the list, version that was read; fields and their values, an empty one to remove the field.
-- Without a version nothing is compared with it, nor is it raised: of fields with one writer each.
if redis.call('HGET', KEYS[1], 'id') ~= ARGV[1] then
  return 'GONE'
end
if ARGV[2] ~= '' then
  if redis.call('HGET', KEYS[1], 'version') ~= ARGV[2] then
    return 'CHANGED'
  end
  redis.call('HINCRBY', KEYS[1], 'version', 1)
end
for at = 3, #ARGV, 2 do
  if ARGV[at + 1] == '' then
    redis.call('HDEL', KEYS[1], ARGV[at])
  else
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1])
  end
end
return 'OK'
