"""Redis' protocol by hand: the requests, the length of an answer, and its content."""

import numpy as np
import pytest

from bench.load import bodies, resp

KEYS = resp.raw_ids(bodies.numbered(1, 0, 3))
# The answer of Redis 7.0.15 to a transaction over three members of which the second exists already.
ANSWER = b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n*3\r\n:0\r\n:1\r\n:0\r\n:2\r\n"


def test_a_transaction_is_four_commands_in_one_piece() -> None:
    members = [row.tobytes() for row in KEYS]
    commands = [(b"MULTI",), (b"SMISMEMBER", b"set", *members), (b"SADD", b"set", *members), (b"EXEC",)]
    assert resp.transaction(b"set", KEYS) == b"".join(resp.command(*words) for words in commands)


def test_a_transactions_answer_is_as_long_as_is_reckoned_before() -> None:
    assert resp.transaction_answer_bytes(3, 2) == len(ANSWER)


def test_a_transactions_answer_reports_the_new_ids() -> None:
    assert resp.transaction_new(ANSWER).tolist() == [True, False, True]


def test_an_answer_that_is_no_transactions_is_shown() -> None:
    with pytest.raises(RuntimeError, match="WRONGTYPE"):
        resp.transaction_new(b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n")


def test_keys_of_a_transaction_may_be_texts() -> None:
    texts = bodies.text_of(bodies.numbered(1, 0, 2))
    assert np.frombuffer(resp.transaction(b"set", texts), np.uint8).tobytes().count(texts[0].tobytes()) == 2
