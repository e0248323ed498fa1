"""Redis' protocol by hand: the fastest way to put it, so that no client library is what is measured.

Every answer has a length that is known before: then an answer is told by its length, and read only in samples.
"""

import numpy as np
from numpy.typing import NDArray

from bench.load.bodies import U8, U64

EXPIRES_S = 3_600

# One command an id. 16 bytes each, in one argument; answers a digit an id: 1 new, 0 known.
LUA_EACH = b"""
local ids, bytes, said = ARGV[1], tonumber(ARGV[2]), {}
for at = 1, #ids, bytes do said[#said + 1] = redis.call('SADD', KEYS[1], string.sub(ids, at, at + bytes - 1)) end
return table.concat(said)
"""

# The fastest that we found: two commands for every 7,000 ids (Lua's unpack takes 8,000), so that interpreter and AOF
# have two commands to handle, not 14,000. An id that stands twice in the request is new once, as in the gateway.
LUA_BULK = b"""
local ids, bytes, said, seen = ARGV[1], tonumber(ARGV[2]), {}, {}
local step, sub, call = bytes * 7000, string.sub, redis.call
for from = 1, #ids, step do
  local asked, count = {}, 0
  for at = from, math.min(from + step - 1, #ids), bytes do
    count = count + 1 asked[count] = sub(ids, at, at + bytes - 1)
  end
  local known, new, news = call('SMISMEMBER', KEYS[1], unpack(asked)), {}, 0
  for i = 1, count do
    local id, is_new = asked[i], 0
    if known[i] == 0 and not seen[id] then is_new = 1 seen[id] = true news = news + 1 new[news] = id end
    said[#said + 1] = is_new
  end
  if news > 0 then call('SADD', KEYS[1], unpack(new)) end
end
return table.concat(said)
"""
SCRIPTS = {"lua": LUA_BULK, "lua_each": LUA_EACH}


def command(*words: bytes) -> bytes:
    """Encodes one command of Redis's protocol (RESP)."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def raw_ids(ids: U64) -> U8:
    """Ids as their 16 bytes, uint8 (n, 16)."""
    return np.ascontiguousarray(ids).view(np.uint8).reshape(len(ids), 16)


def set_commands(keys: U8) -> U8:
    """`SET key 1 NX EX 3600` for each key, uint8 (n, bytes of one command): all keys of one length, so one template."""
    head = b"*6\r\n$3\r\nSET\r\n$%d\r\n" % keys.shape[1]
    tail = b"\r\n$1\r\n1\r\n$2\r\nNX\r\n$2\r\nEX\r\n$%d\r\n%d\r\n" % (len(str(EXPIRES_S)), EXPIRES_S)
    commands = np.empty((len(keys), len(head) + keys.shape[1] + len(tail)), np.uint8)
    commands[:, : len(head)] = np.frombuffer(head, np.uint8)
    commands[:, len(head) : -len(tail)] = keys
    commands[:, -len(tail) :] = np.frombuffer(tail, np.uint8)
    return commands


# "+OK\r\n" where it was set, "$-1\r\n" where it was there.
SET_ANSWER_BYTES = 5


def set_new(answer: bytes) -> NDArray[np.bool_]:
    """Tells which keys were new, from the answers to pipelined `SET NX`."""
    if len(answer) % SET_ANSWER_BYTES:
        raise RuntimeError(f"Redis answered {answer[:200]!r}")
    return np.frombuffer(answer, np.uint8).reshape(-1, SET_ANSWER_BYTES)[:, 0] == ord("+")


def script_answer_bytes(ids: int) -> int:
    """How long a script's answer to so many ids is."""
    return len(b"$%d\r\n" % ids) + ids + 2


def script_new(answer: bytes) -> NDArray[np.bool_]:
    """Tells which ids were new, from a script's answer."""
    head = answer.find(b"\r\n")
    if answer[:1] != b"$":
        raise RuntimeError(f"Redis answered {answer[:200]!r}")
    return np.frombuffer(answer[head + 2 : -2], np.uint8) == ord("1")
