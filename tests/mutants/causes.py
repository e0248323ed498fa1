"""Planted bugs of causes: a writer that is not stored, not compared, or compared with the wrong one."""

from tests.mutants.edits import delete, replace, replace_statement, shift, without
from tests.mutants.mutant import Mutant, one

_TABLE = "tests/core/test_causes.py"
_ARRAYS = "tests/index/test_writers.py"
_ENGINE = "tests/engine/test_causes_by_writer.py"
_DOORS = "tests/transports/test_writers.py"
_CLIENTS = "tests/client/protocol/test_writer_id.py"
_EACH = f"{_ENGINE}::test_each_verb_reports_each_cause"

CAUSES: tuple[Mutant, ...] = (
    Mutant(
        "a batch is compared after the run",
        (
            ("oncegate.core.causes::WriterField.BATCH", replace("BATCH", "RUN")),
            ("oncegate.core.causes::WriterField.RUN", replace("RUN", "BATCH")),
        ),
        (f"{_ARRAYS}::test_each_case_of_the_table_is_answered_accordingly",),
    ),
    one(
        "a task that ran in another batch is a replay",
        "oncegate.core.causes::CAUSES",
        replace(
            (
                "CauseRow(WriterField.BATCH, Relation.OTHER, Cause.UPSTREAM, 'a batch is read once: the "
                "source delivered it again in a later one')"
            ),
            (
                "CauseRow(WriterField.BATCH, Relation.OTHER, Cause.BATCH_REPLAY, 'a batch is read once: "
                "the source delivered it again in a later one')"
            ),
        ),
        f"{_TABLE}::test_each_row_of_the_table_is_as_it_was_decided",
    ),
    one(
        "an attempt that ran first is a retry",
        "oncegate.core.causes::CAUSES",
        replace(
            (
                "CauseRow(WriterField.ATTEMPT, Relation.OLDER, Cause.ZOMBIE, 'an abandoned attempt is "
                "still active', False)"
            ),
            (
                "CauseRow(WriterField.ATTEMPT, Relation.OLDER, Cause.TASK_RETRY, 'an abandoned attempt is "
                "still active', False)"
            ),
        ),
        f"{_TABLE}::test_each_row_of_the_table_is_as_it_was_decided",
    ),
    one(
        "an equal attempt number hides a stage that ran again",
        "oncegate.core.causes::STAGE_ATTEMPT",
        without("(Relation.NEWER, Relation.SAME)"),
        f"{_ARRAYS}::test_the_order_of_all_attempts_reveals_a_repeated_stage",
    ),
    one(
        "an attempt that is newer in all ways is a stage's",
        "oncegate.core.causes::STAGE_ATTEMPT",
        replace(
            (
                "{(Relation.NEWER, Relation.SAME): Relation.NEWER, (Relation.NEWER, "
                "Relation.OLDER): Relation.NEWER, (Relation.OLDER, Relation.SAME): "
                "Relation.OLDER, (Relation.OLDER, Relation.NEWER): Relation.OLDER}"
            ),
            (
                "{(Relation.NEWER, Relation.SAME): Relation.NEWER, (Relation.NEWER, "
                "Relation.OLDER): Relation.NEWER, (Relation.NEWER, Relation.NEWER): "
                "Relation.NEWER, (Relation.OLDER, Relation.SAME): Relation.OLDER, "
                "(Relation.OLDER, Relation.NEWER): Relation.OLDER}"
            ),
        ),
        f"{_ARRAYS}::test_the_order_of_all_attempts_reveals_a_repeated_stage",
    ),
    one(
        "a run that writes again is the newest",
        "oncegate.index.writers::RunOrder.note",
        replace_statement(
            "if run not in runs:\n    ...", "runs = [*(one for one in runs if one != run), run][-_RUNS_MOST:]"
        ),
        f"{_ARRAYS}::test_an_older_run_is_one_that_wrote_before_the_other_did",
    ),
    one(
        "one run of a job too many is kept",
        "oncegate.index.writers::RunOrder.note",
        replace("-_RUNS_MOST", "-_RUNS_MOST - 1"),
        f"{_ARRAYS}::test_the_last_runs_of_a_job_are_kept_and_of_the_last_jobs",
    ),
    one(
        "one job too few is kept",
        "oncegate.index.writers::RunOrder.note",
        shift("len(self._runs) > _JOBS_MOST"),
        f"{_ARRAYS}::test_the_last_runs_of_a_job_are_kept_and_of_the_last_jobs",
    ),
    one(
        "the saved order of runs is the living one",
        "oncegate.index.writers::RunOrder.snapshot",
        replace("{job: list(runs) for job, runs in self._runs.items()}", "self._runs"),
        f"{_ARRAYS}::test_a_saved_order_is_a_copy_and_comes_back",
    ),
    one(
        "a first one that names more is as good as the same",
        "oncegate.index.writers::_relation",
        replace(
            "np.where(theirs == 0, Relation.NEITHER, Relation.ONE).astype(np.uint8)",
            "np.full(len(theirs), Relation.NEITHER, np.uint8)",
        ),
        f"{_ARRAYS}::test_one_that_only_the_first_names_is_as_unknown_as_one_that_only_the_present_names",
    ),
    one(
        "the first stage is named as the second",
        "oncegate.index.writers::_said",
        replace("number + 1", "number"),
        f"{_EACH}[TASK_RETRY-produce]",
    ),
    one(
        "bytes of a later version keep a ledger from being read",
        "oncegate.index.writers::_said",
        replace("(ValueError, TypeError, AttributeError, OverflowError)", "ValueError"),
        f"{_ARRAYS}::test_bytes_that_are_no_writer_are_nobodys_and_keep_no_ledger_from_being_read",
    ),
    one(
        "a first without a writer makes a known cause unknown",
        "oncegate.index.claims.firsts::duplicates_of",
        replace("np.where(by_writer == Cause.UNKNOWN, causes, by_writer)", "by_writer"),
        f"{_ENGINE}::test_a_batch_scope_means_a_task_retry_unless_a_writer_is_named",
    ),
    one(
        "ids of one request are all of its first one's writer",
        "oncegate.index.claims.firsts::_by_writer",
        replace("np.flatnonzero(np.diff(rows, prepend=-2))", "np.zeros(min(1, len(rows)), np.int64)"),
        f"{_ENGINE}::test_each_id_of_a_request_has_the_cause_of_its_own_first_write",
    ),
    one(
        "claims that are decided together keep no writer",
        "oncegate.engine.usecases.claim_batching::ClaimBatcher._grant",
        without("request.sender.writer"),
        f"{_ENGINE}::test_claims_that_are_decided_together_keep_their_writers",
    ),
    one(
        "claims decided together are not compared with each other",
        "oncegate.engine.usecases.claim_batching::ClaimBatcher._duplicates",
        without("writer="),
        f"{_EACH}[TASK_RETRY-claims together]",
    ),
    one(
        "a claim's entry has no writer",
        "oncegate.engine.usecases.claim_batching::ClaimBatcher.decide",
        replace("request.sender.writer", "b''"),
        f"{_EACH}[TASK_RETRY-claim]",
    ),
    one(
        "a row that is used again keeps its last writer",
        "oncegate.index.table.rows::Rows.take",
        replace_statement(
            "self.writer[row] = words_of(grant.writer) if grant.writer else 0",
            "if grant.writer:\n    self.writer[row] = words_of(grant.writer)",
        ),
        f"{_ENGINE}::test_a_row_that_is_used_again_forgets_who_made_the_last_claim",
    ),
    one(
        "a snapshot has no writers",
        "oncegate.index.claims.snapshot::restore_writers",
        delete("rows.column('writer')[at] = of_rows"),
        f"{_ENGINE}::test_the_cause_survives_a_restart",
    ),
    one(
        "a snapshot has no order of runs",
        "oncegate.index.claims.snapshot::restore_writers",
        delete("store.runs.restore(...)"),
        f"{_ENGINE}::test_the_cause_survives_a_restart",
    ),
    one(
        "a replayed entry belongs to no run",
        "oncegate.index.claims.replay::_Replay._grant",
        delete("store.runs.note(...)"),
        f"{_ENGINE}::test_the_cause_survives_a_restart",
    ),
    one(
        "a producer forgets who registered the epoch before",
        "oncegate.index.producers.apply::_register",
        replace("old.writer", "entry.writer"),
        f"{_ENGINE}::test_sequences_have_the_cause_by_the_writer_of_the_previous_epoch",
    ),
    Mutant(
        "a snapshot forgets who registered producers",
        (
            (
                "oncegate.index.producers.snapshot::restore_writers",
                replace("(producer.writer, producer.writer_before)", "producer.writer"),
            ),
            (
                "oncegate.index.producers.snapshot::restore_writers",
                replace("(writer, before)", "writer"),
            ),
        ),
        (f"{_ENGINE}::test_sequences_have_the_cause_by_the_writer_of_the_previous_epoch",),
    ),
    one(
        "a winner that is a retry makes its loser a zombie",
        "oncegate.engine.usecases.batches::Batches._causes",
        delete("cause = cause_between(stage.writer, winner, runs) if cause is Cause.ZOMBIE else cause"),
        f"{_ENGINE}::test_rows_staged_beside_the_winners_have_the_cause_of_the_later_of_both_attempts",
    ),
    one(
        "every commit of a committed name is a replay",
        "oncegate.engine.usecases.batches::Batches._commit",
        replace("Cause.ZOMBIE if is_late else Cause.BATCH_REPLAY", "Cause.BATCH_REPLAY"),
        f"{_ENGINE}::test_a_commit_by_an_older_run_than_the_one_that_committed_is_a_zombies",
    ),
    one(
        "of two writers in the metadata the first one counts",
        "oncegate.transports.writers::writer_bytes",
        replace("len(texts) > 1", "len(texts) > 2"),
        f"{_DOORS}::test_metadata_that_name_no_writer_or_two_are_refused",
    ),
    one(
        "a writer's names may be of any length",
        "oncegate.transports.writers::_read",
        replace("('job', 'run', 'batch')", "('job',)"),
        f"{_DOORS}::test_a_name_of_512_bytes_is_taken_and_of_one_more_refused",
    ),
    one(
        "a member that is there twice is read once",
        "oncegate.transports.writers::_read",
        delete("json_scan.check(...)"),
        f"{_DOORS}::test_a_writer_that_cannot_be_read_is_refused_by_name_before_any_effect",
    ),
    one(
        "an older gateway refuses all that a client writes",
        "oncegate_spark.protocol.calls.steps::Tries.of",
        delete("continue"),
        f"{_CLIENTS}::test_a_gateway_that_does_not_know_the_header_is_asked_without_it",
    ),
    one(
        "a client names its writer where it is not taken",
        "oncegate_spark.protocol.names::takes_writer",
        replace("path.rpartition(':')[2] in _VERBS and '/drivers/' not in path", "'/drivers/' not in path"),
        f"{_CLIENTS}::test_claims_takes_and_writes_name_the_writer_and_other_requests_do_not",
    ),
    one(
        "a driver that registers names its writer",
        "oncegate_spark.protocol.names::takes_writer",
        replace("path.rpartition(':')[2] in _VERBS and '/drivers/' not in path", "path.rpartition(':')[2] in _VERBS"),
        f"{_CLIENTS}::test_registering_names_it_for_a_producer_and_not_for_a_driver",
    ),
    one(
        "rows by id are counted for no client",
        "oncegate.engine.usecases.produce::Records._by_id",
        replace("request.sender.client", "None"),
        f"{_ENGINE}::test_rows_of_a_client_are_counted_by_its_program_and_version",
    ),
    one(
        "no request has a client program",
        "oncegate.transports.incoming::admit",
        replace("gateway.clients.of(head.user_agent)", "None"),
        f"{_DOORS}::test_the_metrics_name_the_program_and_its_version",
    ),
)
