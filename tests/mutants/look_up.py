"""Planted bugs of lookups: one that grants, one that reports an id as free that may be written, one that counts."""

from tests.mutants.edits import delete, replace
from tests.mutants.mutant import Mutant, one

_HTTP = "tests/transports/http/test_look_up.py"

LOOK_UP: tuple[Mutant, ...] = (
    one(
        "an id with an expired lease is reported as free",
        "oncegate.core.claims::LOOK_UP",
        replace("_IS_LEFT", "_IS_FREE"),
        f"{_HTTP}::test_a_claim_with_an_expired_lease_is_distinguished_from_a_free_id",
        "tests/index/claims/test_cells.py::test_a_look_up_grants_nothing_and_has_the_same_answer_for_every_caller",
    ),
    one(
        "a look-up is counted as if it had asked to write",
        "oncegate.engine.usecases.claims::Claims.look_up",
        replace(
            "journal.counts.add(LOOKED_UP, len(request.ids))",
            "journal.counts.add_ids(decision.actions.clip(max=5), decision.verdicts, None, None)",
        ),
        f"{_HTTP}::test_a_look_up_grants_nothing_writes_nothing_and_is_no_duplicate",
    ),
    one(
        "a look-up takes more ids than the limit",
        "oncegate.engine.usecases.claims::Claims.look_up",
        delete("self._check_count(...)"),
        "tests/engine/usecases/test_look_up.py::test_more_ids_than_the_limit_are_refused_by_the_engine_itself",
    ),
    one(
        "a look-up answers before what it rests on is durable",
        "oncegate.engine.usecases.claims::Claims.look_up",
        delete("await journal.group_commit.durable(...)"),
        "tests/engine/usecases/test_look_up.py::test_an_answer_waits_until_what_it_rests_on_is_durable",
    ),
    one(
        "ids are looked up in the set of claims whatever set is named",
        "oncegate.transports.http.routes.claims::_look_up_request",
        replace("call.namespace.fingerprints(id_set, CLAIMED)", "call.namespace.fingerprints(None, CLAIMED)"),
        f"{_HTTP}::test_known_held_and_free_ids_are_distinguished_in_every_encoding",
    ),
)
