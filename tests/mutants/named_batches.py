"""More planted bugs: named batches for sinks that the gateway does not write; see `planted`."""

from tests.mutants.edits import delete, replace, replace_statement
from tests.mutants.mutant import Mutant, one

_TESTS = "tests/client/spark/test_named_batches.py"
_COMMIT = "tests/core/test_commit_table.py::test_a_commit_is_decided_by_the_row_that_its_story_asks_for"
_COMMITS = "tests/engine/usecases/test_commits.py"
_READS = "tests/client/spark/test_reads.py"

NAMED_BATCHES: tuple[Mutant, ...] = (
    one(
        "a batch is named as committed before its function has returned",
        "oncegate_spark.spark.writers.named::NamedBatches.begun",
        replace_statement(
            "is_committed = gateway.abort(name, ())",
            "gateway.commit(name, _order(read, notes.run))\nis_committed = False",
        ),
        f"{_TESTS}::test_a_replay_of_a_committed_batch_is_not_written_again",
    ),
    one(
        "another input under a committed number is taken for its replay",
        "oncegate_spark.spark.writers.named::NamedBatches.begun",
        replace_statement("if is_committed:\n    ...", "if False:\n    gateway.commit(name, _order(read, notes.run))"),
        f"{_TESTS}::test_another_input_under_a_committed_number_stops_before_the_function",
    ),
    one(
        "a batch of unknown input is named",
        "oncegate_spark.spark.writers.named::NamedBatches.begun",
        replace_statement("raise BadOption(UNKNOWN_INPUT)", "read = BatchInput(0, '0' * 64, None)"),
        f"{_TESTS}::test_without_the_input_or_the_gateway_the_function_is_not_called",
    ),
    one(
        "two attempts have one fence",
        "oncegate_spark.spark.writers.named::NamedBatches.begun",
        replace("gateway.driver(job).register().epoch", "1 + gateway.driver(job).register().epoch * 0"),
        f"{_TESTS}::test_an_attempt_that_died_leaves_it_open_and_the_next_has_a_greater_fence",
    ),
    one(
        "a job's lower version is published",
        "oncegate.index.batches::BatchIndex.facts",
        replace("run is None and previous_digest is None", "False"),
        f"{_COMMIT}[a job's version below one that is committed]",
    ),
    one(
        "a query's lower batch is skipped",
        "oncegate.index.batches::BatchIndex.facts",
        replace("run is None and previous_digest is None", "previous_digest is None"),
        f"{_COMMIT}[a query's batch below one that is committed]",
    ),
    one(
        "versions are compared as texts",
        "oncegate.index.committed_names::CommittedNames.higher_name",
        replace("highest > number", "str(highest) > str(number)"),
        f"{_COMMIT}[numbers are compared as numbers]",
    ),
    one(
        "the highest version is forgotten with the last thousand names",
        "oncegate.index.committed_names::CommittedNames.higher_name",
        replace("older is not None", "False"),
        f"{_COMMIT}[a version below one that only the older names have]",
    ),
    one(
        "a skipped version leaves its stages",
        "oncegate.engine.usecases.batches::Batches._skip",
        replace("staged", "False", nth=2),
        f"{_COMMITS}::test_a_lower_version_of_a_job_is_skipped_with_all_that_it_staged",
    ),
    one(
        "a version is skipped for one that is not durable",
        "oncegate.engine.usecases.batches::Batches._skip",
        delete("await journal.group_commit.all_durable()"),
        f"{_COMMITS}::test_a_skipped_version_is_reported_once_the_higher_one_is_durable",
    ),
    one(
        "what follows a batch that was read again is another history",
        "oncegate.engine.usecases.batches::Batches._commit",
        replace("request.digest or b'' if is_same and facts.digests is not DigestMatch.EQUAL else b''", "b''"),
        f"{_COMMITS}::test_a_restored_checkpoint_continues_if_it_reads_the_same",
    ),
    one(
        "what older names read is not kept",
        "oncegate.index.committed_names::CommittedNames._keep_whole",
        replace("is_new and what.reads is not None", "False"),
        f"{_COMMIT}[a restored checkpoint reads the same again, long after]",
    ),
    one(
        "offsets are equal rows",
        "oncegate_spark.spark.checkpoint.reads::Reads.digest_with",
        replace("self.is_whole", "True"),
        f"{_READS}::test_without_offsets_of_the_rows_their_number_is_compared_too",
    ),
    one(
        "a batch reads one file too many",
        "oncegate_spark.spark.checkpoint.reads::_files",
        replace("first + 1", "max(first, 0)"),
        f"{_READS}::test_only_the_files_of_the_batch_count_and_its_number_in_the_log_does_not",
    ),
    one(
        "the time of the batch counts",
        "oncegate_spark.spark.checkpoint.reads::reads_of",
        replace("json.loads(metadata or '{}').get('batchWatermarkMs', 0)", "json.loads(metadata or '{}')"),
        f"{_READS}::test_files_are_known_by_name_and_time_of_change_whenever_the_batch_was_made",
    ),
    one(
        "where a batch reads from does not count",
        "oncegate_spark.spark.checkpoint.reads::reads_of",
        replace("_canonical(_first(store, at) if start == NOTHING_YET else start)", "[]"),
        f"{_READS}::test_kafkas_offsets_count_from_where_to_where_and_not_by_their_bytes",
    ),
)
