"""The way to each cell of the tables of free ids, and its expected answer, written by hand rather than read from
them."""

from collections.abc import Callable

import numpy as np

from oncegate.core.claims import Asker, IdState, LeaseExpiry
from oncegate.index.claims.decide import decide_verb
from oncegate.index.claims.results import ClaimDecision
from oncegate.index.claims.store import Widths
from oncegate.index.table.arrays import IdTimes
from tests.support.index.driver import LEASE_MS, Answer, name
from tests.support.index.verbs import VerbDriver

Cells = dict[tuple[IdState, Asker], tuple[str, int]]

ID, ELSE, MORE = 5, 6, 7
LEFT_MS = 400
LONG_AFTER_MS = 1_000_000

GRANTED, TAKEOVER, SAME = ("GRANTED", 0), ("GRANTED+TAKEOVER", 0), ("SAME+OF_CALL", 1)
BUSY, BUSY_LIVE = ("BUSY", 0), ("BUSY", LEFT_MS)
DUPLICATE, OWN = ("DUPLICATE", 0), ("DUPLICATE+OWN", 0)
CONFLICT = ("CONFLICT", 0)
IN_DOUBT, STALE = ("IN_DOUBT", 0), ("STALE", 0)
FREE, LEFT = ("FREE", 0), ("FREE+TAKEOVER", 0)
# Creation times of ID, to the millisecond on both sides of the limit.
MADE_PAST, MADE_LATELY = (IdTimes(np.array([made_ms], np.uint64), 1_000) for made_ms in (1_000, 1_001))
# The payload with which ID was completed, and a different one.
WITH, OTHER = np.array([0x5EED], np.uint32), np.array([0xD1FF], np.uint32)

# In the order of Asker: same claim, repeat, same token, other.
EXPECTED: dict[str, dict[IdState, tuple[tuple[str, int], ...]]] = {
    "claim": {
        IdState.ABSENT: (BUSY, BUSY, GRANTED, GRANTED),
        IdState.CLAIMED_LIVE: (GRANTED, BUSY_LIVE, SAME, BUSY_LIVE),
        IdState.CLAIMED_OVER: (GRANTED, BUSY, TAKEOVER, TAKEOVER),
        IdState.DONE: (OWN, DUPLICATE, OWN, DUPLICATE),
        IdState.TAKEN: (OWN, DUPLICATE, OWN, DUPLICATE),
        IdState.DONE_OTHER: (CONFLICT, CONFLICT, CONFLICT, CONFLICT),
        IdState.PAST: (STALE,) * 4,
    },
    "produce": {
        IdState.ABSENT: (GRANTED, GRANTED, GRANTED, GRANTED),
        IdState.CLAIMED_LIVE: (SAME, BUSY_LIVE, SAME, BUSY_LIVE),
        IdState.CLAIMED_OVER: (TAKEOVER, TAKEOVER, TAKEOVER, TAKEOVER),
        IdState.DONE: (OWN, DUPLICATE, OWN, DUPLICATE),
        IdState.TAKEN: (OWN, DUPLICATE, OWN, DUPLICATE),
        IdState.DONE_OTHER: (CONFLICT, CONFLICT, CONFLICT, CONFLICT),
        IdState.PAST: (STALE,) * 4,
    },
    "take": {
        IdState.ABSENT: (GRANTED, GRANTED, GRANTED, GRANTED),
        IdState.CLAIMED_LIVE: (BUSY_LIVE, BUSY_LIVE, BUSY_LIVE, BUSY_LIVE),
        IdState.CLAIMED_OVER: (TAKEOVER, TAKEOVER, TAKEOVER, TAKEOVER),
        IdState.DONE: (OWN, DUPLICATE, OWN, DUPLICATE),
        IdState.TAKEN: (GRANTED, DUPLICATE, GRANTED, DUPLICATE),
        IdState.DONE_OTHER: (OWN, DUPLICATE, OWN, DUPLICATE),
        IdState.PAST: (STALE,) * 4,
    },
    "look up": {
        IdState.ABSENT: (FREE,) * 4,
        IdState.CLAIMED_LIVE: (BUSY_LIVE,) * 4,
        IdState.CLAIMED_OVER: (LEFT,) * 4,
        IdState.DONE: (OWN, DUPLICATE, OWN, DUPLICATE),
        IdState.TAKEN: (OWN, DUPLICATE, OWN, DUPLICATE),
        IdState.DONE_OTHER: (OWN, DUPLICATE, OWN, DUPLICATE),
        IdState.PAST: (STALE,) * 4,
    },
}
# The answers for an id whose lease has expired, by the namespace's `lease_expiry`.
EXPECTED_EXPIRED: dict[LeaseExpiry, dict[str, tuple[tuple[str, int], ...]]] = {
    LeaseExpiry.TAKEOVER: {verb: cells[IdState.CLAIMED_OVER] for verb, cells in EXPECTED.items()},
    LeaseExpiry.HOLD: {
        "claim": (GRANTED, BUSY, SAME, BUSY),
        "produce": (SAME, BUSY, SAME, BUSY),
        "take": (BUSY,) * 4,
        "look up": (LEFT,) * 4,
    },
    LeaseExpiry.FAIL: {
        "claim": (GRANTED, IN_DOUBT, IN_DOUBT, IN_DOUBT),
        "produce": (IN_DOUBT,) * 4,
        "take": (IN_DOUBT,) * 4,
        "look up": (LEFT,) * 4,
    },
}
# Granted again without an entry, because the asker already owns it. Every other GRANTED is in `fresh` or `taken`.
AGAIN = {
    ("claim", IdState.CLAIMED_LIVE, Asker.SAME_CLAIM),
    ("claim", IdState.CLAIMED_OVER, Asker.SAME_CLAIM),
    ("take", IdState.TAKEN, Asker.SAME_CLAIM),
    ("take", IdState.TAKEN, Asker.SAME_TOKEN),
}


def reach(
    verb: str, cell: tuple[IdState, Asker], widths: Widths, compiled: bool
) -> tuple[VerbDriver, Callable[[], ClaimDecision]]:
    """Returns an index in which ID is in the cell's state, and the request for ID alone by the cell's asker."""
    state, asker = cell
    driver = VerbDriver(widths, compiled)
    # The repeated call: it asked for ID too, which a stranger held, and was granted ELSE.
    guard = driver.claim("guard", 1, [ID])
    driver.does("produce" if verb == "produce" else "claim", "repeat", 1, [ID, ELSE])
    driver.release(guard.claim)
    holder_call = _bring(driver, verb, state)
    if state is IdState.ABSENT and asker in (Asker.REPEAT, Asker.OTHER):
        driver.index.sweep(driver.now_ms)
    driver.now_ms += LEASE_MS if state is IdState.CLAIMED_OVER else LEASE_MS - LEFT_MS
    # A take has no repeated call and no payload, so these cells are asked of the kernel directly.
    if verb == "look up" or state is IdState.PAST:
        return driver, lambda: _ask_kernel(driver, verb, cell, holder_call)
    if verb == "take" and (state is IdState.DONE_OTHER or asker in (Asker.SAME_CLAIM, Asker.REPEAT)):
        return driver, lambda: _ask_kernel(driver, verb, cell, holder_call)
    of_holder = [ID] if holder_call else [MORE]
    payload = OTHER if state is IdState.DONE_OTHER else WITH
    return driver, {
        Asker.SAME_CLAIM: lambda: driver.asks(verb, "holder", holder_call, of_holder, [ID], payload),
        Asker.REPEAT: lambda: driver.asks(verb, "repeat", 1, [ID, ELSE], [ID], payload),
        Asker.SAME_TOKEN: lambda: driver.asks(verb, "holder", 2, [ID], None, payload),
        Asker.OTHER: lambda: driver.asks(verb, "stranger", 1, [ID], None, payload),
    }[asker]


def _ask_kernel(driver: VerbDriver, verb: str, cell: tuple[IdState, Asker], holder_call: int) -> ClaimDecision:
    """Returns the kernel's answer to a take or look-up with a token, a call and a payload."""
    state, asker = cell
    holds, known = asker in (Asker.SAME_CLAIM, Asker.SAME_TOKEN), asker in (Asker.SAME_CLAIM, Asker.REPEAT)
    token, call = ("holder", holder_call) if holds else ("repeat", 1)
    claim, payload = name("claim") if known else None, OTHER if state is IdState.DONE_OTHER else WITH
    ids = driver.fingerprints([ID])
    times = MADE_PAST if state is IdState.PAST else MADE_LATELY
    return decide_verb(driver.index.store, verb, name(token), call, claim, ids, driver.now_ms, payload, times)


def _bring(driver: VerbDriver, verb: str, state: IdState) -> int:
    """Brings ID into a state on behalf of "holder", with this verb if possible. Returns the call that owns it."""
    if state is IdState.TAKEN:
        # An owner's row has call 0, and that call must be a known one.
        driver.does("claim" if verb == "take" else verb, "holder", 0, [MORE])
        driver.does("take", "holder", 0, [ID])
        return 0
    if verb == "produce" and state in (IdState.ABSENT, IdState.PAST, IdState.DONE, IdState.DONE_OTHER):
        driver.does("produce", "holder", 1, [ID], digests=WITH)
        if state in (IdState.ABSENT, IdState.PAST):
            driver.retire(LONG_AFTER_MS)
        return 1
    answer = driver.claim("holder", 1, [ID], digests=WITH)
    if state in (IdState.ABSENT, IdState.PAST):
        driver.release(answer.claim)
    elif state in (IdState.DONE, IdState.DONE_OTHER):
        driver.complete(answer.claim)
    return 1


def check_cell(
    verb: str,
    cell: tuple[IdState, Asker],
    widths: Widths,
    compiled: bool,
    expiry: LeaseExpiry = LeaseExpiry.TAKEOVER,
) -> None:
    """Raises AssertionError or KeyError unless the current table answers this cell as written here."""
    state, asker = cell
    driver, ask = reach(verb, cell, widths, compiled)
    driver.index.store.let_expire(expiry)
    expected = EXPECTED_EXPIRED[expiry][verb] if state is IdState.CLAIMED_OVER else EXPECTED[verb][state]
    _check_answer(driver, ask, expected[asker], again=(verb, state, asker) in AGAIN)


def _check_answer(driver: VerbDriver, ask: Callable[[], ClaimDecision], expected: tuple[str, int], again: bool) -> None:
    asked = ask()
    assert Answer(asked, None, None).verdicts == [expected]
    assert asked.again == again
    assert (len(asked.fresh), len(asked.taken)) == (int(expected == GRANTED and not again), int(expected == TAKEOVER))
    before = driver.index.contents()
    driver.index.sweep(driver.now_ms)
    assert Answer(ask(), None, None).verdicts == [expected], "a sweep changed the answer"
    assert driver.index.contents() == before
