"""Encodes Redis's protocol directly, the fastest way, so that the measurement contains no client library.

The length of every reply is known in advance, so replies are delimited by length and read only in samples.
"""

import numpy as np
from numpy.typing import NDArray

from bench.load.bodies import U8, U64

EXPIRES_S = 3_600

# The fastest form found: both commands in one transaction and one write, without Lua. An id that a request contains
# twice is reported as new twice, unlike by the scripts and the gateway.
_MULTI, _EXEC = b"*1\r\n$5\r\nMULTI\r\n", b"*1\r\n$4\r\nEXEC\r\n"

# The fastest script found: two commands for every 7,000 ids (Lua's unpack accepts 8,000), so that the interpreter and
# the AOF handle two commands instead of 14,000. An id that a request contains twice is new once, as in the gateway.
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
SCRIPTS = {"lua": LUA_BULK}


def command(*words: bytes) -> bytes:
    """Encodes one command of Redis's protocol (RESP)."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def raw_ids(ids: U64) -> U8:
    """Returns ids as their 16 bytes, uint8 (n, 16)."""
    return np.ascontiguousarray(ids).view(np.uint8).reshape(len(ids), 16)


def set_commands(keys: U8) -> U8:
    """Returns `SET key 1 NX EX 3600` for each key, uint8 (n, bytes of one command); all keys have one length."""
    head = b"*6\r\n$3\r\nSET\r\n$%d\r\n" % keys.shape[1]
    tail = b"\r\n$1\r\n1\r\n$2\r\nNX\r\n$2\r\nEX\r\n$%d\r\n%d\r\n" % (len(str(EXPIRES_S)), EXPIRES_S)
    commands = np.empty((len(keys), len(head) + keys.shape[1] + len(tail)), np.uint8)
    commands[:, : len(head)] = np.frombuffer(head, np.uint8)
    commands[:, len(head) : -len(tail)] = keys
    commands[:, -len(tail) :] = np.frombuffer(tail, np.uint8)
    return commands


# Length of "+OK\r\n" (the key was set) and of "$-1\r\n" (the key existed).
SET_ANSWER_BYTES = 5


def set_new(answer: bytes) -> NDArray[np.bool_]:
    """Returns which keys were new, from the replies to pipelined `SET NX`."""
    if len(answer) % SET_ANSWER_BYTES:
        raise RuntimeError(f"Redis answered {answer[:200]!r}")
    return np.frombuffer(answer, np.uint8).reshape(-1, SET_ANSWER_BYTES)[:, 0] == ord("+")


def transaction(bucket: bytes, keys: U8) -> bytes:
    """Encodes `MULTI`, `SMISMEMBER` and `SADD` of all keys, uint8 (n, bytes of a key), and `EXEC`."""
    head = b"$%d\r\n" % keys.shape[1]
    words = np.empty((len(keys), len(head) + keys.shape[1] + 2), np.uint8)
    words[:, : len(head)] = np.frombuffer(head, np.uint8)
    words[:, len(head) : -2] = keys
    words[:, -2:] = np.frombuffer(b"\r\n", np.uint8)
    members = words.tobytes()
    commands = [
        b"*%d\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n%s" % (len(keys) + 2, len(verb), verb, len(bucket), bucket, members)
        for verb in (b"SMISMEMBER", b"SADD")
    ]
    return b"".join((_MULTI, *commands, _EXEC))


def transaction_answer_bytes(ids: int, new: int) -> int:
    """Returns the length of the reply to a transaction over `ids` ids, `new` of them new."""
    queued = len(b"+OK\r\n") + 2 * len(b"+QUEUED\r\n")
    return queued + len(b"*2\r\n*%d\r\n" % ids) + len(b":0\r\n") * ids + len(b":%d\r\n" % new)


def transaction_new(answer: bytes) -> NDArray[np.bool_]:
    """Returns which ids were new, from the reply to a transaction."""
    head = b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n*"
    if not answer.startswith(head):
        raise RuntimeError(f"Redis answered {answer[:200]!r}")
    begin = answer.index(b"\r\n", len(head)) + 2
    end = answer.rindex(b":")
    return np.frombuffer(answer[begin:end], np.uint8).reshape(-1, len(b":0\r\n"))[:, 1] == ord("0")


def script_answer_bytes(ids: int) -> int:
    """Returns the length of a script's reply for `ids` ids."""
    return len(b"$%d\r\n" % ids) + ids + 2


def script_new(answer: bytes) -> NDArray[np.bool_]:
    """Returns which ids were new, from a script's reply."""
    head = answer.find(b"\r\n")
    if answer[:1] != b"$":
        raise RuntimeError(f"Redis answered {answer[:200]!r}")
    return np.frombuffer(answer[head + 2 : -2], np.uint8) == ord("1")
