"""Planted bugs of `oncegate size`: what it would leave out of memory and disk."""

from tests.mutants.edits import cell, replace
from tests.mutants.mutant import Mutant, one

_TESTS = "tests/cli/test_capacity.py"

SIZES: tuple[Mutant, ...] = (
    one(
        "results cost nothing",
        "oncegate.cli.capacity::sizes",
        replace("RESULT_BYTES + work.result_bytes", "work.result_bytes"),
        f"{_TESTS}::test_results_take_what_is_said",
    ),
    one(
        "frames without blocks",
        "oncegate.cli.capacity::entry_bytes",
        replace(
            "BLOCK_BYTES * (requested + done) / (clients * batch)",
            "(FRAME_BYTES + CLAIM_BYTES + COMPLETION_BYTES + ID_BYTES * batch) / batch",
        ),
        f"{_TESTS}::test_entries_take_as_much_disk_as_said",
    ),
    one(
        "a table without gaps",
        "oncegate.cli.capacity::table_bytes",
        replace("ids * SLOT_BYTES / TABLE_LOAD", "ids * SLOT_BYTES"),
        f"{_TESTS}::test_the_table_is_as_large_as_said_wherever_its_segments_stand",
    ),
    one(
        "named ids leave memory",
        "oncegate.cli.capacity::sizes",
        replace("max(most, math.ceil(work.rate * held_s(work)))", "most"),
        f"{_TESTS}::test_ids_stay_in_memory_while_their_claims_can_be_named_however_few_may_stay_there",
    ),
    one(
        "names for nothing",
        "oncegate.cli.capacity::sizes",
        replace(
            "work.names * NAME_BYTES + min(work.names, LAST_NAMES_MAX) * LAST_NAME_BYTES",
            "min(work.names, LAST_NAMES_MAX) * LAST_NAME_BYTES",
        ),
        f"{_TESTS}::test_names_take_what_is_said_and_64_bytes_at_most",
    ),
    one(
        "saved ranges for nothing",
        "oncegate.cli.capacity::kept_bytes",
        replace("math.ceil(names) + work.ranges * RANGE_BYTES", "math.ceil(names)"),
        f"{_TESTS}::test_ranges_take_what_is_said",
    ),
    one(
        "archives for nothing",
        "oncegate.cli.capacity::sizes",
        cell("'archives'", "0"),
        f"{_TESTS}::test_ids_that_left_memory_take_as_much_memory_and_disk_as_said",
    ),
    one(
        "payloads' digests beside full slots alone",
        "oncegate.cli.capacity::sizes",
        replace("hot * work.digest_bytes / TABLE_LOAD", "hot * work.digest_bytes"),
        f"{_TESTS}::test_payloads_digests_take_what_is_said",
    ),
    one(
        "ids with payloads leave memory",
        "oncegate.cli.capacity::sizes",
        replace("ids if work.payload_digests else work.hot_ids_max", "work.hot_ids_max"),
        f"{_TESTS}::test_ids_with_payloads_stay_in_memory",
    ),
)
