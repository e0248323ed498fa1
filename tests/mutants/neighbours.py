"""Boundaries off by one, each next to a planted bug that removes the comparison."""

from collections.abc import Iterable, Iterator

from tests.mutants.mutant import Mutant

# Neighbours that are equivalent to the unchanged code, or whose exact bound is not promised; each with its reason.
EXPLAINED: dict[str, str] = {
    "a batch is compressed that becomes larger by it, off by one": "at the boundary both forms are equally long",
    "a page continues past its end, off by one": "pages end with whole ranges; a page that ends exactly at its size may include the next range",
    "answers over gRPC are not counted, off by one": "the size from which answers are counted saves time and is not promised",
    "heads without an end, off by one": "a head that has not ended after that many bytes is longer than the limit",
    "rows are read beyond the bytes of an answer, off by one": "a piece of exactly that many bytes is cut after its last row",
    "a whole number beyond 2^53 is rounded to a double, off by one": "a double represents 2^53 exactly",
    "old times of a zone are off by its seconds, off by one": "both ways write a time of 1973 the same",
    "a restart without dropping, off by one": "a second drop drops nothing",
    "an acked batch taken for duplicates, off by one": "a request without ids is never sent",
    "ack beyond what was claimed, off by one": "at the boundary both numbers are equal",
    "claims that are decided together ask for no time, off by one": "a slice of an empty array is empty",
    "a row too large by its types comes to the tasks, off by one": "from this size on the gateway's limits are read, and they decide",
    "the queue grows while nothing is written, off by one": "it bounds memory; the number of duplicates that a full queue describes is not promised",
    "each look writes a line of what was passed, off by one": "checks run each second, and the log has a line each minute",
    "what waits to become durable is not held, off by one": "a deletion would never end, nor would its tests",
    "a time in which nothing could be heard counts as silence, off by one": "half of the takeover time is a margin, in float seconds",
    "a collector that refuses is a line for each batch, off by one": "exactly at the boundary: a line a minute",
    "a takeover keeps the old payload, off by one": "reads past an empty array, which is undefined in a compiled kernel",
    "versions are compared as texts, off by one": "a name of the same number is looked up earlier",
    "a standby serves without what came after its last look, off by one": "then there is nothing between them to read",
    "a session that ends soon is used on, off by one": "exactly at the boundary of a float clock",
    "rows are given up whose frame may have been deleted, off by one": "a record at the lowest offset is itself named",
    "the demo counts a broker's kill as hit without a write meanwhile, off by one": "exactly at the boundary, in float seconds",
    "the demo counts a broker's kill as hit without a write meanwhile, off by one (2)": "exactly at the boundary",
    "the demo counts a server's kill as hit without a request meanwhile, off by one": "exactly at the boundary",
    "the demo counts a server's kill as hit without a request meanwhile, off by one (2)": "exactly at the boundary",
}
# Tests that catch a neighbour, if others catch the bug itself.
TESTS: dict[str, tuple[str, ...]] = {
    "a topic is written that takes smaller batches, off by one": (
        "tests/faults/kafka/test_topics_of_users.py::test_a_topic_that_takes_just_the_batches_that_are_written_is_written",
    ),
    "an older fence appends to the Delta table, off by one": (
        "tests/examples/test_tables.py::test_the_next_batch_of_the_same_attempt_is_appended",
    ),
    "an older fence appends to the Iceberg table, off by one": (
        "tests/examples/test_tables.py::test_the_next_batch_of_the_same_attempt_is_appended",
    ),
    "a standby's reading counts as proof of the stream, off by one": (
        "tests/faults/redis/test_standby_ledger.py::test_a_standby_keeps_its_promises",
    ),
    "a partition that a topic has not is taken, off by one": (
        "tests/faults/kafka/test_row_columns.py::"
        "test_rows_go_to_the_topic_and_the_partition_that_they_name_in_their_order",
    ),
    "connections without a bound, off by one": (
        "tests/faults/server/test_descriptors.py::test_the_last_connection_within_the_limit_is_answered",
    ),
    "of two writers in the metadata the first one counts, off by one": (
        "tests/transports/test_writers.py::test_metadata_name_the_writer_as_the_header_does",
    ),
    "a number of more than 32 bits is written as an int, off by one": (
        "tests/client/test_formats.py::test_numbers_that_avro_has_are_written_as_they_are",
    ),
    "a number of more than 32 bits is written as an int, off by one (2)": (
        "tests/client/test_formats.py::test_numbers_that_avro_has_are_written_as_they_are",
    ),
    "years of five digits are ids, off by one": (
        "tests/hashing/test_id_text.py::test_the_first_and_the_last_day_of_years_of_four_digits_are_ids",
    ),
    "years of five digits are ids, off by one (2)": (
        "tests/hashing/test_id_text.py::test_the_first_and_the_last_day_of_years_of_four_digits_are_ids",
    ),
    "two buckets at once, off by one": (
        "tests/engine/maintenance/test_scheduler.py::test_a_bucket_lasts_its_time_to_the_millisecond",
    ),
    "a stop waits for who takes nothing, off by one": (
        "tests/transports/http/test_connections.py::test_a_connection_is_cut_off_at_the_last_of_its_looks_and_not_before",
    ),
    "a checkpoint that was set back keeps its later acks, off by one": (
        "tests/client/spark/test_lane_acks.py::test_a_batch_is_acked_once_the_commit_log_names_it_and_never_before",
    ),
    "a live claim in doubt, off by one": (
        "tests/engine/usecases/test_operators.py::test_a_claim_is_in_doubt_from_the_millisecond_its_lease_is_over",
    ),
    "clocks of writers are trusted to the millisecond, off by one": ("tests/core/test_id_times.py",),
    "asks take all the memory there is, off by one": (
        "tests/index/test_committed_names.py::test_asks_of_exactly_the_limit_stay_and_come_back_when_a_commit_beyond_it_is_refused",
    ),
    "results take all the memory there is, off by one": (
        "tests/index/claims/test_firsts.py::test_a_result_that_was_forgotten_lets_its_row_be_shared",
    ),
}


def neighbours(mutants: Iterable[Mutant]) -> Iterator[Mutant]:
    """Yields, once for each ordered comparison that a bug removes, the bug that moves its boundary by one."""
    seen = set()
    for mutant in mutants:
        shifts = [(address, *near) for address, edit in mutant.edits for near in getattr(edit, "neighbours", ())]
        for number, (address, comparison, shifted) in enumerate(shifts, 1):
            name = f"{mutant.name}, off by one" + (f" ({number})" if number > 1 else "")
            if (address, comparison) not in seen and name not in EXPLAINED:
                yield Mutant(name, ((address, shifted),), TESTS.get(name, mutant.tests))
            seen.add((address, comparison))
