"""More planted bugs: batches named for sinks that the gateway does not write; see `planted`."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import CLIENT, ENGINE, INDEX

_NAMED = f"{CLIENT}/spark/writers/named.py"
_TESTS = "tests/client/spark/test_named_batches.py"
_COMMIT = "tests/core/test_commit_table.py::test_a_commit_is_decided_by_the_row_that_its_story_asks_for"
_COMMITS = "tests/engine/usecases/test_commits.py"
_READS = "tests/client/spark/test_reads.py"

NAMED_BATCHES: tuple[Mutant, ...] = (
    one(
        "a batch is named as committed before its function has returned",
        _NAMED,
        "            is_committed = gateway.abort(name, ())\n",
        "            gateway.commit(name, _order(read, notes.run))\n            is_committed = False\n",
        f"{_TESTS}::test_a_replay_of_a_committed_batch_is_not_written_again",
    ),
    one(
        "another input under a committed number is taken for its replay",
        _NAMED,
        "            if is_committed:  # whether",
        "            if False:  # whether",
        f"{_TESTS}::test_another_input_under_a_committed_number_stops_before_the_function",
    ),
    one(
        "a batch of unknown input is named",
        _NAMED,
        "            raise BadOption(UNKNOWN_INPUT)\n",
        '            read = Input(0, "0" * 64, None)\n',
        f"{_TESTS}::test_without_the_input_or_the_gateway_the_function_is_not_called",
    ),
    one(
        "two attempts have one fence",
        _NAMED,
        "            fence = gateway.driver(job).register().epoch\n",
        "            fence = 1 + gateway.driver(job).register().epoch * 0\n",
        f"{_TESTS}::test_an_attempt_that_died_leaves_it_open_and_the_next_has_a_greater_fence",
    ),
    one(
        "a job's lower version is published",
        f"{INDEX}/batches.py",
        "            is_ordered = run is None and previous_digest is None\n",
        "            is_ordered = False\n",
        f"{_COMMIT}[a job's version below one that is committed]",
    ),
    one(
        "a query's lower batch is skipped",
        f"{INDEX}/batches.py",
        "            is_ordered = run is None and previous_digest is None\n",
        "            is_ordered = previous_digest is None\n",
        f"{_COMMIT}[a query's batch below one that is committed]",
    ),
    one(
        "versions are compared as texts",
        f"{INDEX}/committed_names.py",
        "        return found_name if highest > number else None\n",
        "        return found_name if str(highest) > str(number) else None\n",
        f"{_COMMIT}[numbers are compared as numbers]",
    ),
    one(
        "the highest version is forgotten with the last thousand names",
        f"{INDEX}/committed_names.py",
        "        if older is not None:\n            numbers",
        "        if False:\n            numbers",
        f"{_COMMIT}[a version below one that only the older names have]",
    ),
    one(
        "a skipped version leaves its stages",
        f"{ENGINE}/usecases/batches.py",
        "        if staged:\n            journal.group_commit.check()\n",
        "        if False:\n            journal.group_commit.check()\n",
        f"{_COMMITS}::test_a_lower_version_of_a_job_is_skipped_with_all_that_it_staged",
    ),
    one(
        "a version is skipped for one that is not durable",
        f"{ENGINE}/usecases/batches.py",
        "        await journal.group_commit.all_durable()\n        warning = (\n",
        "        warning = (\n",
        f"{_COMMITS}::test_a_skipped_version_is_told_once_the_higher_one_is_durable",
    ),
    one(
        "what follows a batch that was read again is another history",
        f"{ENGINE}/usecases/batches.py",
        '        digest = (request.digest or b"") if is_same and facts.digests is not Digests.EQUAL else b""\n',
        '        digest = b""\n',
        f"{_COMMITS}::test_a_restored_checkpoint_goes_on_where_it_reads_the_same",
    ),
    one(
        "what older names read is not kept",
        f"{INDEX}/committed_names.py",
        "        if is_new and what.reads is not None:\n",
        "        if False:\n",
        f"{_COMMIT}[a restored checkpoint reads the same again, long after]",
    ),
    one(
        "offsets are equal rows",
        f"{CLIENT}/spark/checkpoint/reads.py",
        "        if self.is_whole:\n",
        "        if True:\n",
        f"{_READS}::test_where_offsets_do_not_say_which_rows_they_were_the_rows_count_too",
    ),
    one(
        "a batch reads one file too many",
        f"{CLIENT}/spark/checkpoint/reads.py",
        "    for batch in range(first + 1, last + 1):\n",
        "    for batch in range(max(first, 0), last + 1):\n",
        f"{_READS}::test_only_the_files_of_the_batch_count_and_its_number_in_the_log_does_not",
    ),
    one(
        "the time of the batch counts",
        f"{CLIENT}/spark/checkpoint/reads.py",
        'watermark = json.loads(metadata or "{}").get("batchWatermarkMs", 0)',
        'watermark = json.loads(metadata or "{}")',
        f"{_READS}::test_files_are_known_by_name_and_time_of_change_whenever_the_batch_was_made",
    ),
    one(
        "where a batch reads from does not count",
        f"{CLIENT}/spark/checkpoint/reads.py",
        "files = [_canonical(_first(store, at) if start == NOTHING_YET else start), _canonical(end)]",
        "files = [[], _canonical(end)]",
        f"{_READS}::test_kafkas_offsets_count_from_where_to_where_and_not_by_their_bytes",
    ),
)
