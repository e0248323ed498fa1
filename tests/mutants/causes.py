"""Planted bugs of causes: a writer that is not kept, not compared, or compared with the wrong one."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import CLIENT, ENGINE, INDEX

_CORE = "service/oncegate/core/causes.py"
_WRITERS = f"{INDEX}/writers.py"
_TABLE = "tests/core/test_causes.py"
_ARRAYS = "tests/index/test_writers.py"
_ENGINE = "tests/engine/test_causes_by_writer.py"
_DOORS = "tests/transports/test_writers.py"
_CLIENTS = "tests/client/protocol/test_writer_id.py"
_EACH = f"{_ENGINE}::test_each_verb_tells_each_cause"

CAUSES: tuple[Mutant, ...] = (
    one(
        "a batch is compared after the run",
        _CORE,
        "    BATCH = 1\n    RUN = 2\n",
        "    RUN = 1\n    BATCH = 2\n",
        f"{_ARRAYS}::test_each_case_of_the_table_is_told_as_the_table_has_it",
    ),
    one(
        "a task that ran in another batch is a replay",
        _CORE,
        "Row(Field.BATCH, Relation.OTHER, Cause.UPSTREAM",
        "Row(Field.BATCH, Relation.OTHER, Cause.BATCH_REPLAY",
        f"{_TABLE}::test_each_row_of_the_table_is_as_it_was_decided",
    ),
    one(
        "an attempt that ran first is a retry",
        _CORE,
        "Row(Field.ATTEMPT, Relation.OLDER, Cause.ZOMBIE",
        "Row(Field.ATTEMPT, Relation.OLDER, Cause.TASK_RETRY",
        f"{_TABLE}::test_each_row_of_the_table_is_as_it_was_decided",
    ),
    one(
        "the same number of an attempt does not tell a stage that ran again",
        _CORE,
        "    (Relation.NEWER, Relation.SAME): Relation.NEWER,\n",
        "",
        f"{_ARRAYS}::test_the_order_of_all_attempts_tells_a_stage_that_ran_again",
    ),
    one(
        "an attempt that is newer in all ways is a stage's",
        _CORE,
        "    (Relation.NEWER, Relation.OLDER): Relation.NEWER,\n",
        "    (Relation.NEWER, Relation.OLDER): Relation.NEWER,\n    (Relation.NEWER, Relation.NEWER): Relation.NEWER,\n",
        f"{_ARRAYS}::test_the_order_of_all_attempts_tells_a_stage_that_ran_again",
    ),
    one(
        "a run that writes again is the newest",
        _WRITERS,
        "        if run not in runs:\n            runs = [*runs, run][-_RUNS_MOST:]\n",
        "        runs = [*(one for one in runs if one != run), run][-_RUNS_MOST:]\n",
        f"{_ARRAYS}::test_an_older_run_is_one_that_wrote_before_the_other_did",
    ),
    one(
        "one run of a job too many is kept",
        _WRITERS,
        "[-_RUNS_MOST:]",
        "[-_RUNS_MOST - 1 :]",
        f"{_ARRAYS}::test_the_last_runs_of_a_job_are_kept_and_of_the_last_jobs",
    ),
    one(
        "one job too few is kept",
        _WRITERS,
        "        if len(self._runs) > _JOBS_MOST:",
        "        if len(self._runs) >= _JOBS_MOST:",
        f"{_ARRAYS}::test_the_last_runs_of_a_job_are_kept_and_of_the_last_jobs",
    ),
    one(
        "the saved order of runs is the living one",
        _WRITERS,
        "        return {job: list(runs) for job, runs in self._runs.items()}",
        "        return self._runs",
        f"{_ARRAYS}::test_a_saved_order_is_a_copy_and_comes_back",
    ),
    one(
        "a first one that names more is as good as the same",
        _WRITERS,
        "        return np.where(theirs == 0, Relation.NEITHER, Relation.ONE).astype(np.uint8)",
        "        return np.full(len(theirs), Relation.NEITHER, np.uint8)",
        f"{_ARRAYS}::test_one_that_only_the_first_names_is_as_unknown_as_one_that_only_the_present_names",
    ),
    one(
        "stage 0 is named by nobody",
        _WRITERS,
        "(0 if number is None else number + 1 for number in numbers)",
        "(0 if number is None else number for number in numbers)",
        f"{_EACH}[TASK_RETRY-produce]",
    ),
    one(
        "bytes of a later version keep a ledger from being read",
        _WRITERS,
        "    except (ValueError, TypeError, AttributeError, OverflowError):",
        "    except ValueError:",
        f"{_ARRAYS}::test_bytes_that_are_no_writer_are_nobodys_and_keep_no_ledger_from_being_read",
    ),
    one(
        "a first without a writer makes a known cause unknown",
        f"{INDEX}/claims/firsts.py",
        "        causes = np.where(by_writer == Cause.UNKNOWN, causes, by_writer)\n",
        "        causes = by_writer\n",
        f"{_ENGINE}::test_a_batch_scope_tells_a_task_retry_where_no_writer_does_and_yields_where_one_does",
    ),
    one(
        "ids of one request are all of its first one's writer",
        f"{INDEX}/claims/firsts.py",
        "    begins = np.flatnonzero(np.diff(rows, prepend=-2))\n",
        "    begins = np.zeros(min(1, len(rows)), np.int64)\n",
        f"{_ENGINE}::test_ids_of_one_request_are_told_each_by_its_own_first",
    ),
    one(
        "claims that are decided together keep no writer",
        f"{ENGINE}/usecases/claim_batching.py",
        'ids, b"", b"", request.id_set, request.writer))',
        'ids, b"", b"", request.id_set))',
        f"{_ENGINE}::test_claims_that_are_decided_together_keep_their_writers",
    ),
    one(
        "claims that are decided together are compared with nobody",
        f"{ENGINE}/usecases/claim_batching.py",
        "request.call, is_repeat=False, writer=request.writer, seen_max",
        "request.call, is_repeat=False, seen_max",
        f"{_EACH}[TASK_RETRY-claims together]",
    ),
    one(
        "a claim's entry has no writer",
        f"{ENGINE}/usecases/claims.py",
        "taken, digests, request.id_set, request.writer)",
        "taken, digests, request.id_set)",
        f"{_EACH}[TASK_RETRY-claim]",
    ),
    one(
        "a row that is used again keeps its last writer",
        f"{INDEX}/table/rows.py",
        "        self.writer[row] = words_of(grant.writer)\n",
        "        if grant.writer:\n            self.writer[row] = words_of(grant.writer)\n",
        f"{_ENGINE}::test_a_row_that_is_used_again_forgets_who_made_the_last_claim",
    ),
    one(
        "a snapshot has no writers",
        f"{INDEX}/snapshot/claims_reader.py",
        '    rows.column("writer")[at] = of_rows\n',
        "",
        f"{_ENGINE}::test_the_cause_survives_a_restart",
    ),
    one(
        "a snapshot has no order of runs",
        f"{INDEX}/snapshot/claims_reader.py",
        "    store.runs.restore(runs)\n",
        "",
        f"{_ENGINE}::test_the_cause_survives_a_restart",
    ),
    one(
        "a replayed entry is nobody's run",
        f"{INDEX}/claims/replay.py",
        "        store.runs.note(grant.writer)\n",
        "",
        f"{_ENGINE}::test_the_cause_survives_a_restart",
    ),
    one(
        "a producer forgets who registered the epoch before",
        f"{INDEX}/producers/apply.py",
        "        writer_before=old.writer,\n",
        "        writer_before=entry.writer,\n",
        f"{_ENGINE}::test_sequences_are_told_by_the_writer_of_the_epoch_before",
    ),
    one(
        "a snapshot forgets who registered producers",
        f"{INDEX}/snapshot/producers.py",
        "            producer.writer, producer.writer_before = writer, before\n",
        "            producer.writer = writer\n",
        f"{_ENGINE}::test_sequences_are_told_by_the_writer_of_the_epoch_before",
    ),
    one(
        "a winner that is a retry makes its loser a zombie",
        f"{ENGINE}/usecases/batches.py",
        "            cause = cause_between(stage.writer, winner, runs) if cause is Cause.ZOMBIE else cause\n",
        "",
        f"{_ENGINE}::test_rows_that_are_staged_beside_the_winners_are_told_by_the_later_of_both_attempts",
    ),
    one(
        "every commit of a committed name is a replay",
        f"{ENGINE}/usecases/batches.py",
        "Cause.ZOMBIE if is_late else Cause.BATCH_REPLAY",
        "Cause.BATCH_REPLAY",
        f"{_ENGINE}::test_a_commit_by_an_older_run_than_the_one_that_committed_is_a_zombies",
    ),
    one(
        "one client's version too many has series",
        f"{ENGINE}/counts/clients.py",
        "len(self.by_name) >= VERSIONS_MAX",
        "len(self.by_name) > VERSIONS_MAX",
        f"{_ENGINE}::test_more_versions_than_there_is_room_for_are_other",
    ),
    one(
        "a program that is not known has a name of its own",
        f"{ENGINE}/counts/clients.py",
        " if found is not None and found[1] in NAMES else ",
        " if found is not None else ",
        f"{_DOORS}::test_the_metrics_name_the_program_and_its_version",
    ),
    one(
        "of two writers in the metadata the first one counts",
        "service/oncegate/transports/grpc/calls.py",
        "        if len(named) > 1:\n",
        "        if len(named) > 2:\n",
        f"{_DOORS}::test_metadata_that_name_no_writer_or_two_are_refused",
    ),
    one(
        "a writer's names may be of any length",
        "service/oncegate/transports/writers.py",
        '    for what in ("job", "run", "batch"):\n',
        '    for what in ("job",):\n',
        f"{_DOORS}::test_a_name_of_512_bytes_is_taken_and_of_one_more_refused",
    ),
    one(
        "a member that is there twice is read once",
        "service/oncegate/transports/writers.py",
        "    json_scan.check(data, limits)\n",
        "",
        f"{_DOORS}::test_a_writer_that_cannot_be_read_is_refused_by_name_before_any_effect",
    ),
    one(
        "an older gateway refuses all that a client writes",
        f"{CLIENT}/protocol/calls/steps.py",
        "                self.writer = None\n                continue\n",
        "                self.writer = None\n",
        f"{_CLIENTS}::test_a_gateway_that_does_not_know_the_header_is_asked_without_it",
    ),
    one(
        "a client names its writer where it is not taken",
        f"{CLIENT}/protocol/names.py",
        '    return path.rpartition(":")[2] in _VERBS and "/drivers/" not in path\n',
        '    return "/drivers/" not in path\n',
        f"{_CLIENTS}::test_what_claims_takes_or_writes_names_the_writer_and_what_does_not_says_nothing",
    ),
    one(
        "a driver that registers names its writer",
        f"{CLIENT}/protocol/names.py",
        ' and "/drivers/" not in path\n',
        "\n",
        f"{_CLIENTS}::test_registering_names_it_for_a_producer_and_not_for_a_driver",
    ),
)
