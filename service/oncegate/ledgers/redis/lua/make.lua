#!lua
-- Makes the head of a ledger that was never owned; it may be there from an earlier try.
-- KEYS: head, frames, rows, states. ARGV: ledger, chain of an empty ledger.
local ledger = redis.call('HGET', KEYS[1], 'ledger')
if ledger then
  return ledger == ARGV[1] and 'OK' or 'FOREIGN'
end
if redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4]) > 0 then
  return 'FOREIGN'
end
redis.call('HSET', KEYS[1], 'ledger', ARGV[1], 'fence', '0', 'serial', '0', 'position', '0', 'chain', ARGV[2])
return 'OK'
