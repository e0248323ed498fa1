"""Planted bugs of namespaces' turns: which one waits for which, and for how long."""

from tests.mutants.edits import delete, replace, replace_statement
from tests.mutants.mutant import Mutant, one

_TURNS = "tests/engine/test_turns.py"

TURNS: tuple[Mutant, ...] = (
    Mutant(
        "all namespaces are in one queue",
        (
            (
                "oncegate.engine.admission::Turns.enter",
                replace_statement(
                    "queue = self._queues.get(namespace)",
                    ("queue = next(iter(self._queues.values()), None) or _Queue()\nself._queues[namespace] = queue"),
                ),
            ),
            ("oncegate.engine.admission::Turns.enter", delete("if queue is None:\n    ...")),
        ),
        (f"{_TURNS}::test_a_request_of_a_namespace_that_asks_for_little_waits_for_none_of_anothers",),
    ),
    one(
        "no namespace waits for its turn",
        "oncegate.engine.admission::Turns.enter",
        replace("not size_bytes", "size_bytes >= 0"),
        f"{_TURNS}::test_a_small_claim_is_answered_before_most_large_ones_of_another_namespace_that_came_first",
    ),
    one(
        "a large request is made up for by one turn",
        "oncegate.engine.admission::Turns._next",
        replace("min(queue.credit_bytes + share_bytes, share_bytes)", "share_bytes"),
        f"{_TURNS}::test_beside_another_a_large_request_is_made_up_for_before_the_next_of_its_namespace",
    ),
    one(
        "a body of a gigabyte holds up its namespace for all the turns that it is worth",
        "oncegate.engine.admission::_Queue.pay",
        replace("max(self.credit_bytes - cost_bytes, -DEBT_TURNS * SHARED_BYTES)", "self.credit_bytes - cost_bytes"),
        f"{_TURNS}::test_none_is_held_up_for_longer_than_a_few_turns_however_large_it_was",
    ),
    one(
        "a namespace that is alone is slowed down as beside others",
        "oncegate.engine.admission::Turns._next",
        replace("SHARED_BYTES if is_shared else ALONE_BYTES", "SHARED_BYTES"),
        f"{_TURNS}::test_a_lone_namespace_continues_in_every_turn",
    ),
    one(
        "a claim's completion waits for the claims of its namespace",
        "oncegate.engine.admission::Turns.enter",
        replace("not size_bytes", "size_bytes < 0"),
        f"{_TURNS}::test_what_settles_or_renews_a_claim_waits_for_no_claims_of_its_namespace",
    ),
    one(
        "who has gone away takes its turn all the same",
        "oncegate.engine.admission::_Queue.go_on",
        replace_statement(
            "if not turn.done():\n    ...", "self.pay(cost_bytes)\nif not turn.done():\n    turn.set_result(None)"
        ),
        f"{_TURNS}::test_a_caller_that_disconnects_while_it_waits_blocks_no_other",
    ),
    one(
        "a namespace at rest is kept for ever",
        "oncegate.engine.admission::Turns._next",
        delete("del self._queues[namespace]"),
        f"{_TURNS}::test_nothing_is_kept_of_a_namespace_that_is_at_rest",
    ),
    one(
        "who goes away before its turn is under way for ever",
        "oncegate.transports.incoming::_waited",
        delete("gateway.turns.leave(...)"),
        "tests/transports/test_incoming.py::test_who_goes_away_before_its_namespaces_turn_gives_back_its_room",
    ),
    one(
        "the latency of a claim leaves out how long it waited for its turn",
        "oncegate.engine.usecases.claims::Claims.claim",
        replace("now_ms - deadline.waited_ms", "now_ms"),
        "tests/transports/test_incoming.py::test_how_long_a_claim_waits_for_its_turn_is_a_part_of_its_latency",
    ),
)
