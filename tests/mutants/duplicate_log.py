"""Planted bugs of the records about single duplicates: their content and their cost."""

from tests.mutants.edits import replace
from tests.mutants.mutant import Mutant, one

_TEST = "tests/engine/test_duplicate_log.py"

DUPLICATE_LOG: tuple[Mutant, ...] = (
    one(
        "the queue grows while nothing is written",
        "oncegate.engine.counts.duplicate_log::DuplicateLogs.add",
        replace("seen is None or self._queued + described > QUEUED_MAX", "seen is None"),
        f"{_TEST}::test_requests_that_are_answered_at_once_fill_the_queue_no_further",
    ),
    one(
        "a request that waits keeps what all of it was",
        "oncegate.index.claims.firsts::duplicates_of",
        replace(
            "_seen(store, ids[at[few]], causes[few].copy(), rows, archive, wall_ms)",
            "_seen(store, ids[at][few], causes[few], rows, archive, wall_ms)",
        ),
        f"{_TEST}::test_a_large_request_is_written_in_pieces_and_keeps_no_more_than_it_reports",
    ),
    one(
        "the first is where the duplicate is",
        "oncegate.index.claims.firsts::_seen",
        replace("rows.holders.position[found[held]]", "rows.holders.position.max()"),
        f"{_TEST}::test_a_record_has_cause_age_and_location_of_the_first_and_neither_id_nor_claim",
    ),
    one(
        "an id that left memory is as old as nothing",
        "oncegate.index.claims.firsts::_seen",
        replace("~held", "held"),
        f"{_TEST}::test_causes_and_topics_are_those_of_each_id_also_where_its_first_left_memory",
    ),
    one(
        "a ledger without brokers accepts the topic's name without an error",
        "oncegate.ledgers::open_duplicates",
        replace("scheme != 'kafka'", "scheme == 'redis'"),
        "tests/faults/kafka/test_duplicates_topic.py::test_a_ledger_without_brokers_refuses_the_setting_by_name",
    ),
)
