"""Planted bugs of the demo itself: wrong counts, and faults wrongly counted as hit."""

from tests.mutants.edits import replace
from tests.mutants.mutant import Mutant, one

_FAULTS = "tests/demo/test_faults.py"

DEMO: tuple[Mutant, ...] = (
    one(
        "the demo counts a broker's kill as hit without a write meanwhile",
        "demo.faults::_wrote_while_it_was_dead",
        replace(
            ("bool(killed and again and done) and any((killed[0]['t'] < e['t'] < again[0]['t'] for e in handed))"),
            "bool(killed and again and done)",
        ),
        f"{_FAULTS}::test_a_killed_broker_counts_when_rows_were_handed_over_while_it_was_dead",
    ),
    one(
        "the demo counts a server's kill as hit without a request meanwhile",
        "demo.faults::_asked_while_it_was_dead",
        replace("any((killed[0]['t'] < event['t'] < again[0]['t'] for event in repeats))", "True"),
        f"{_FAULTS}::test_a_killed_server_counts_when_the_lost_request_came_again_while_it_was_dead",
    ),
)
