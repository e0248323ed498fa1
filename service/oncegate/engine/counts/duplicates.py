"""Looks up why the duplicates of a request came, to be counted; before what it is granted is recorded."""

from oncegate.core.claims import Action
from oncegate.engine.requests import ClaimRequest, ProduceRequest, TakeRequest
from oncegate.index.claims.firsts import AskedBy, Duplicates, duplicates_of
from oncegate.index.claims.results import ClaimDecision
from oncegate.index.claims.store import ClaimStore


def duplicates_in(
    store: ClaimStore,
    request: ClaimRequest | ProduceRequest | TakeRequest,
    decision: ClaimDecision,
    wall_ms: int,
    seen_max: int = 0,
) -> Duplicates | None:
    """Tells of the ids of a request that was decided just now and are duplicates why each came; None: none is.

    `seen_max`: how many of them are described one by one.
    """
    if request.ids is None or Action.DUPLICATE not in decision.actions.tobytes():
        return None
    scope = None if request.scope is None else (request.scope.driver, request.scope.batch)
    call = None if isinstance(request, TakeRequest) else request.call
    asked = AskedBy(call or 0, decision.claim is not None, call is None, scope, request.writer, seen_max)
    return duplicates_of(store, request.ids, decision.verdicts, decision.archives, asked, wall_ms)
