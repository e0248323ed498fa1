"""Planted bugs of the demo itself: what it counts wrongly, and faults that it takes for met."""

from tests.mutants.mutant import Mutant, one

_TOPICS = "tests/demo/kafka/test_topics.py"
_FAULTS = "tests/demo/test_faults.py"
_REPORT = "tests/demo/test_report.py"

DEMO: tuple[Mutant, ...] = (
    one(
        "the demo counts rows of aborted transactions",
        "demo/kafka/topics.py",
        '            "isolation.level": "read_committed",\n',
        '            "isolation.level": "read_uncommitted",\n',
        f"{_TOPICS}::test_rows_of_an_aborted_transaction_did_not_come_and_copies_of_committed_ones_did",
    ),
    one(
        "the demo takes a broker for killed that nobody wrote to",
        "demo/faults.py",
        '    return bool(killed and again and done) and any(killed[0]["t"] < e["t"] < again[0]["t"] for e in handed)\n',
        "    return bool(killed and again and done)\n",
        f"{_FAULTS}::test_a_killed_broker_counts_when_rows_were_handed_over_while_it_was_dead",
    ),
    one(
        "the demo takes a server for killed that nobody asked meanwhile",
        "demo/faults.py",
        '    return any(killed[0]["t"] < event["t"] < again[0]["t"] for event in repeats)\n',
        "    return True\n",
        f"{_FAULTS}::test_a_killed_server_counts_when_the_lost_request_came_again_while_it_was_dead",
    ),
    one(
        "the demo takes an owner for followed that came back itself",
        "demo/faults.py",
        'of_kind(events, "gateway_serves_again", standby=True)',
        'of_kind(events, "gateway_serves_again")',
        f"{_FAULTS}::test_a_takeover_counts_when_a_gateway_serves_that_stood_by_as_the_owner_was_killed",
    ),
    one(
        "the demo forgives rows that are lost in a topic",
        "demo/report.py",
        'way.promise != "none" and lost > 0,',
        'way.promise == "takeovers" and lost > 0,',
        f"{_REPORT}::test_one_row_too_many_or_too_few_in_a_kafka_topic_fails_the_demo",
    ),
)
