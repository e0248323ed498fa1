"""Planted bugs of the demo itself: what it counts wrongly, and faults that it takes for met."""

from tests.mutants.edits import cell, replace, without
from tests.mutants.mutant import Mutant, one

_TOPICS = "tests/demo/kafka/test_topics.py"
_FAULTS = "tests/demo/test_faults.py"
_REPORT = "tests/demo/test_report.py"

DEMO: tuple[Mutant, ...] = (
    one(
        "the demo counts rows of aborted transactions",
        "demo.kafka.topics::_committed",
        cell("'isolation.level'", "'read_uncommitted'"),
        f"{_TOPICS}::test_rows_of_an_aborted_transaction_did_not_come_and_copies_of_committed_ones_did",
    ),
    one(
        "the demo takes a broker for killed that nobody wrote to",
        "demo.faults::_wrote_while_it_was_dead",
        replace(
            ("bool(killed and again and done) and any((killed[0]['t'] < e['t'] < again[0]['t'] for e in handed))"),
            "bool(killed and again and done)",
        ),
        f"{_FAULTS}::test_a_killed_broker_counts_when_rows_were_handed_over_while_it_was_dead",
    ),
    one(
        "the demo takes a server for killed that nobody asked meanwhile",
        "demo.faults::_asked_while_it_was_dead",
        replace("any((killed[0]['t'] < event['t'] < again[0]['t'] for event in repeats))", "True"),
        f"{_FAULTS}::test_a_killed_server_counts_when_the_lost_request_came_again_while_it_was_dead",
    ),
    one(
        "the demo takes an owner for followed that came back itself",
        "demo.faults::_standby_serves",
        without("standby="),
        f"{_FAULTS}::test_a_takeover_counts_when_a_gateway_serves_that_stood_by_as_the_owner_was_killed",
    ),
    one(
        "the demo forgives rows that are lost in a topic",
        "demo.report::_broken",
        replace("way.promise != 'none'", "way.promise == 'takeovers'"),
        f"{_REPORT}::test_one_row_too_many_or_too_few_in_a_kafka_topic_fails_the_demo",
    ),
)
