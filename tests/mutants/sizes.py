"""Planted bugs of `oncegate size`: what it would leave out of memory and disk."""

from tests.mutants.mutant import Mutant, one

_SIZING = "service/oncegate/cli/capacity.py"
_TESTS = "tests/cli/test_capacity.py"

SIZES: tuple[Mutant, ...] = (
    one(
        "results cost nothing",
        _SIZING,
        "(RESULT_BYTES + work.result_bytes + ROW_BYTES)),",
        "(work.result_bytes + ROW_BYTES)),",
        f"{_TESTS}::test_results_take_what_is_said",
    ),
    one(
        "frames without blocks",
        _SIZING,
        "    return BLOCK_BYTES * (asked + done) / (clients * batch)",
        "    return (FRAME_BYTES + CLAIM_BYTES + COMPLETION_BYTES + ID_BYTES * batch) / batch",
        f"{_TESTS}::test_entries_take_as_much_disk_as_said",
    ),
    one(
        "a table without gaps",
        _SIZING,
        "    return math.ceil(ids * SLOT_BYTES / TABLE_LOAD)",
        "    return math.ceil(ids * SLOT_BYTES)",
        f"{_TESTS}::test_the_table_is_as_large_as_said_wherever_its_segments_stand",
    ),
    one(
        "named ids leave memory",
        _SIZING,
        "    hot = min(ids, max(most, math.ceil(work.rate * held_s(work))))",
        "    hot = min(ids, most)",
        f"{_TESTS}::test_ids_stay_in_memory_while_their_claims_can_be_named_however_few_may_stay_there",
    ),
    one(
        "names for nothing",
        _SIZING,
        "math.ceil(work.names * NAME_BYTES + min(work.names, LAST_NAMES_MAX) * LAST_NAME_BYTES)",
        "math.ceil(min(work.names, LAST_NAMES_MAX) * LAST_NAME_BYTES)",
        f"{_TESTS}::test_names_take_what_is_said_and_64_bytes_at_most",
    ),
    one(
        "saved ranges for nothing",
        _SIZING,
        "    return math.ceil(names) + work.ranges * RANGE_BYTES\n",
        "    return math.ceil(names)\n",
        f"{_TESTS}::test_ranges_take_what_is_said",
    ),
    one(
        "archives for nothing",
        _SIZING,
        '        "archives": cold * ID_BYTES,',
        '        "archives": 0,',
        f"{_TESTS}::test_ids_that_left_memory_take_as_much_memory_and_disk_as_said",
    ),
    one(
        "payloads' digests beside full slots alone",
        _SIZING,
        '        "payload digests": math.ceil(hot * work.digest_bytes / TABLE_LOAD),',
        '        "payload digests": math.ceil(hot * work.digest_bytes),',
        f"{_TESTS}::test_payloads_digests_take_what_is_said",
    ),
    one(
        "ids with payloads leave memory",
        _SIZING,
        "    most = ids if work.payload_digests else work.hot_ids_max",
        "    most = work.hot_ids_max",
        f"{_TESTS}::test_ids_with_payloads_stay_in_memory",
    ),
)
