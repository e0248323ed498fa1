"""The way to each cell of the table of completes and releases, and its expected effect, written by hand."""

from oncegate.core import claims as decisions
from oncegate.core.claims import ClaimState, Effect, IdState, Verb
from oncegate.index.claims.store import Widths
from tests.support.index.driver import LEASE_MS, Driver, fingerprints, name

ID, ELSE = 5, 6

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


def reach_settle(state: ClaimState, widths: Widths, compiled: bool) -> tuple[Driver, bytes]:
    """Returns an index and a claim of ID and ELSE in that state, its lease expired."""
    driver = Driver(widths, compiled)
    claim = driver.claim("holder", 1, [ID, ELSE]).claim
    assert claim is not None
    if state is ClaimState.DONE:
        driver.complete(claim)
    elif state is ClaimState.RELEASED:
        driver.release(claim)
    driver.now_ms += LEASE_MS
    return driver, claim if state is not ClaimState.UNKNOWN else name("nobody's")


def check_settle_cell(cell: tuple[Verb, ClaimState], widths: Widths, compiled: bool) -> None:
    """Raises AssertionError or KeyError unless the current table handles this cell as written here, including
    the ids."""
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
