"""How each cell of the two tables is reached, and what it must answer: written by hand, not read from the tables."""

from collections.abc import Callable

from oncegate.core import decisions
from oncegate.core.decisions import Asker, ClaimState, Effect, IdState, Verb
from oncegate.index.claims import Asked, Widths
from tests.index.driver import LEASE_MS, Answer, Driver, fingerprints, name

ID, ELSE = 5, 6
LEFT_MS = 400

BUSY = ("BUSY", 0)
BUSY_LIVE = ("BUSY", LEFT_MS)
EXPECTED_CLAIM: dict[tuple[IdState, Asker], tuple[str, int]] = {
    (IdState.ABSENT, Asker.SAME_CLAIM): BUSY,
    (IdState.ABSENT, Asker.REPEAT): BUSY,
    (IdState.ABSENT, Asker.SAME_TOKEN): ("GRANTED", 0),
    (IdState.ABSENT, Asker.OTHER): ("GRANTED", 0),
    (IdState.CLAIMED_LIVE, Asker.SAME_CLAIM): ("GRANTED", 0),
    (IdState.CLAIMED_LIVE, Asker.REPEAT): BUSY_LIVE,
    (IdState.CLAIMED_LIVE, Asker.SAME_TOKEN): ("SAME+OF_CALL", 1),
    (IdState.CLAIMED_LIVE, Asker.OTHER): BUSY_LIVE,
    (IdState.CLAIMED_OVER, Asker.SAME_CLAIM): ("GRANTED", 0),
    (IdState.CLAIMED_OVER, Asker.REPEAT): BUSY,
    (IdState.CLAIMED_OVER, Asker.SAME_TOKEN): ("GRANTED+TAKEOVER", 0),
    (IdState.CLAIMED_OVER, Asker.OTHER): ("GRANTED+TAKEOVER", 0),
    (IdState.DONE, Asker.SAME_CLAIM): ("DUPLICATE+OWN", 0),
    (IdState.DONE, Asker.REPEAT): ("DUPLICATE", 0),
    (IdState.DONE, Asker.SAME_TOKEN): ("DUPLICATE+OWN", 0),
    (IdState.DONE, Asker.OTHER): ("DUPLICATE", 0),
}
AGAIN = {(IdState.CLAIMED_LIVE, Asker.SAME_CLAIM), (IdState.CLAIMED_OVER, Asker.SAME_CLAIM)}
FRESH = {(IdState.ABSENT, Asker.SAME_TOKEN), (IdState.ABSENT, Asker.OTHER)}
TAKEN = {(IdState.CLAIMED_OVER, Asker.SAME_TOKEN), (IdState.CLAIMED_OVER, Asker.OTHER)}

EXPECTED_SETTLE: dict[tuple[Verb, ClaimState], Effect] = {
    (Verb.RENEW, ClaimState.OPEN): Effect.EXTEND,
    (Verb.RENEW, ClaimState.DONE): Effect.NOTHING,
    (Verb.RENEW, ClaimState.RELEASED): Effect.REFUSE_RELEASED,
    (Verb.RENEW, ClaimState.UNKNOWN): Effect.REFUSE_UNKNOWN,
    (Verb.COMPLETE, ClaimState.OPEN): Effect.MARK_DONE,
    (Verb.COMPLETE, ClaimState.DONE): Effect.NOTHING,
    (Verb.COMPLETE, ClaimState.RELEASED): Effect.REFUSE_RELEASED,
    (Verb.COMPLETE, ClaimState.UNKNOWN): Effect.REFUSE_UNKNOWN,
    (Verb.RELEASE, ClaimState.OPEN): Effect.FREE,
    (Verb.RELEASE, ClaimState.DONE): Effect.NOTHING,
    (Verb.RELEASE, ClaimState.RELEASED): Effect.NOTHING,
    (Verb.RELEASE, ClaimState.UNKNOWN): Effect.REFUSE_UNKNOWN,
}


def reach_claim(cell: tuple[IdState, Asker], widths: Widths, compiled: bool) -> tuple[Driver, Callable[[], Asked]]:
    """An index in which ID is in the cell's state, and the request of the cell's asker for it alone."""
    state, asker = cell
    driver = Driver(widths, compiled)
    # The repeat's own call: it asked for ID too, which a stranger held, and was granted ELSE.
    held_first = _claimed_by(driver, "holder", [ID])
    driver.claim("repeat", 1, [ID, ELSE])
    if state is IdState.ABSENT:
        driver.release(held_first.claim)
        if asker in (Asker.REPEAT, Asker.OTHER):
            driver.index.sweep(driver.now_ms)
    elif state is IdState.DONE:
        driver.complete(held_first.claim)
    driver.now_ms += LEASE_MS if state is IdState.CLAIMED_OVER else LEASE_MS - LEFT_MS
    return driver, {
        Asker.SAME_CLAIM: lambda: driver.ask("holder", 1, [ID]),
        Asker.REPEAT: lambda: driver.ask("repeat", 1, [ID, ELSE], asks=[ID]),
        Asker.SAME_TOKEN: lambda: driver.ask("holder", 2, [ID]),
        Asker.OTHER: lambda: driver.ask("stranger", 1, [ID]),
    }[asker]


def _claimed_by(driver: Driver, token: str, ids: list[int]) -> Answer:
    answer = driver.claim(token, 1, ids)
    assert answer.words == ["GRANTED"] * len(ids)
    return answer


def check_claim_cell(cell: tuple[IdState, Asker], widths: Widths, compiled: bool) -> None:
    """AssertionError or KeyError unless the table in force answers this cell as written here."""
    driver, ask = reach_claim(cell, widths, compiled)
    asked = ask()
    assert Answer(asked, None, None).verdicts == [EXPECTED_CLAIM[cell]]
    assert asked.again == (cell in AGAIN)
    assert (len(asked.fresh), len(asked.taken)) == (int(cell in FRESH), int(cell in TAKEN))
    before = driver.index.snapshot()
    driver.index.sweep(driver.now_ms)
    assert Answer(ask(), None, None).verdicts == [EXPECTED_CLAIM[cell]], "a sweep changed the answer"
    assert driver.index.snapshot() == before


def reach_settle(state: ClaimState, widths: Widths, compiled: bool) -> tuple[Driver, bytes]:
    """An index and a claim of ID and ELSE in that state, its lease over."""
    driver = Driver(widths, compiled)
    claim = _claimed_by(driver, "holder", [ID, ELSE]).claim
    assert claim is not None
    if state is ClaimState.DONE:
        driver.complete(claim)
    elif state is ClaimState.RELEASED:
        driver.release(claim)
    driver.now_ms += LEASE_MS
    return driver, claim if state is not ClaimState.UNKNOWN else name("nobody's")


def check_settle_cell(cell: tuple[Verb, ClaimState], widths: Widths, compiled: bool) -> None:
    """AssertionError or KeyError unless the table in force settles this cell as written here, ids and all."""
    verb, state = cell
    driver, claim = reach_settle(state, widths, compiled)
    view = driver.index.view(claim, driver.now_ms)
    assert view.state is state
    effect = decisions.SETTLE[verb, view.state].effect
    assert effect is EXPECTED_SETTLE[cell]
    if effect is Effect.EXTEND:
        driver.index.renew(claim, driver.now_ms)
    elif effect is Effect.MARK_DONE:
        driver.complete(claim)
    elif effect is Effect.FREE:
        driver.release(claim)
    states = {driver.index.explain(fp.tobytes(), driver.now_ms).state for fp in fingerprints([ID, ELSE])}
    assert states == {_STATE_AFTER.get(effect, _STATE_BEFORE[state])}


_STATE_AFTER = {
    Effect.EXTEND: IdState.CLAIMED_LIVE,
    Effect.MARK_DONE: IdState.DONE,
    Effect.FREE: IdState.ABSENT,
}
_STATE_BEFORE = {
    ClaimState.OPEN: IdState.CLAIMED_OVER,
    ClaimState.DONE: IdState.DONE,
    ClaimState.RELEASED: IdState.ABSENT,
    ClaimState.UNKNOWN: IdState.CLAIMED_OVER,
}
