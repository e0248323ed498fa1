"""More planted bugs: the examples that write Delta and Iceberg tables; see `planted`."""

from tests.mutants.edits import cell, delete, replace, without
from tests.mutants.mutant import Mutant, one

_TESTS = "tests/examples/test_tables.py"

LAKES: tuple[Mutant, ...] = (
    one(
        "a batch that the Delta table has is appended again",
        "examples.delta::write",
        delete("if last is not None and last >= batch.number:\n    ..."),
        f"{_TESTS}::test_killed_between_the_tables_commit_and_its_answer_the_next_attempt_finds_it",
    ),
    one(
        "a Delta commit does not carry the batch's number",
        "examples.delta::write",
        without("Transaction(batch.job, batch.number)"),
        f"{_TESTS}::test_killed_between_the_tables_commit_and_its_answer_the_next_attempt_finds_it",
    ),
    one(
        "a zombie's Delta commit names nothing that another's could meet",
        "examples.delta::write",
        replace(
            "[Transaction(batch.job, batch.number), Transaction(fence_id, batch.fence)]",
            "[Transaction(f'{batch.job}{batch.fence}', batch.number)]",
        ),
        f"{_TESTS}::test_a_zombie_that_slept_between_its_look_and_its_commit_is_refused_by_delta",
    ),
    one(
        "an older fence appends to the Delta table",
        "examples.delta::write",
        replace("(table.transaction_version(fence_id) or 0) > batch.fence", "False"),
        f"{_TESTS}::test_an_attempt_with_an_older_fence_that_comes_late_writes_nothing",
    ),
    Mutant(
        "PyIceberg appends a zombie's batch again by itself",
        (
            ("examples.iceberg::open_table", cell("RETRIES", "'4'")),
            ("examples.iceberg::write", replace("table.properties.get(RETRIES) != '0'", "False")),
        ),
        (f"{_TESTS}::test_a_zombie_that_slept_between_its_look_and_its_snapshot_is_refused_by_iceberg",),
    ),
    one(
        "a table of Iceberg that repeats appends is written",
        "examples.iceberg::write",
        replace("table.properties.get(RETRIES) != '0'", "False"),
        f"{_TESTS}::test_a_table_of_iceberg_that_repeats_refused_appends_by_itself_is_not_written",
    ),
    one(
        "a refused snapshot is appended without another look",
        "examples.iceberg::write",
        replace("entered(table, batch)", "look == 0 and entered(table, batch)"),
        f"{_TESTS}::test_a_zombie_that_slept_between_its_look_and_its_snapshot_is_refused_by_iceberg",
    ),
    one(
        "an older fence appends to the Iceberg table",
        "examples.iceberg::entered",
        replace("int(said['oncegate.fence']) > batch.fence", "False"),
        f"{_TESTS}::test_an_attempt_with_an_older_fence_that_comes_late_writes_nothing",
    ),
)
