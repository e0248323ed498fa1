"""Planted bugs of the metrics: counted but not shown, or shown for an unknown namespace."""

from tests.mutants.edits import delete, replace, replace_statement
from tests.mutants.mutant import Mutant, one

_PAGE = "tests/transports/http/test_metrics.py"
_READ = "tests/engine/test_metrics.py"
_CAUSES = "tests/engine/test_duplicate_causes.py"

METRICS: tuple[Mutant, ...] = (
    one(
        "an append whose end is unknown is not counted",
        "oncegate.engine.commit.group_commit::GroupCommit._append",
        delete("self._counts.add(APPENDS_LOST)"),
        f"{_READ}::test_an_append_is_counted_by_how_it_ended_and_by_how_many_changes_it_took",
    ),
    one(
        "every append is of one change",
        "oncegate.engine.commit.group_commit::GroupCommit._append",
        replace("self._counts.changes.observe(len(group))", "self._counts.changes.observe(1)"),
        f"{_READ}::test_an_append_is_counted_by_how_it_ended_and_by_how_many_changes_it_took",
    ),
    one(
        "a claim that is not batched is not timed",
        "oncegate.engine.usecases.claims::Claims.claim",
        replace_statement(
            "result = await self.alone(request, lease_ms, deadline)",
            "return await self.alone(request, lease_ms, deadline)",
        ),
        f"{_READ}::test_every_answered_claim_is_timed_once_whatever_way_it_went",
    ),
    one(
        "a claim is timed before it is durable",
        "oncegate.engine.usecases.claims::Claims.claim",
        replace_statement(
            "await pending.waiter",
            "journal.counts.claims.observe(0)\nawait pending.waiter\nreturn pending.decided.result",
        ),
        f"{_READ}::test_every_answered_claim_is_timed_once_whatever_way_it_went",
    ),
    one(
        "each ownership counts from zero",
        "oncegate.engine.recovery.shard_opening::_shard_of",
        replace("counts", "Counts()"),
        f"{_READ}::test_a_namespace_that_recovers_shows_its_state_and_what_was_answered",
    ),
    one(
        "a label for every namespace",
        "oncegate.engine.metrics.reader::MetricsReader._assign",
        replace("len(self._alone) < most", "len(self._alone) >= 0"),
        f"{_READ}::test_namespaces_beyond_the_limit_are_exported_together",
    ),
    one(
        "the parameters of a version in Accept are not ignored",
        "oncegate.transports.http.parameters::accepted",
        replace("_without_parameters(header) if any_version else header", "header"),
        f"{_PAGE}::test_it_comes_in_the_format_that_the_reader_likes_best",
    ),
    one(
        "a refused request is not counted",
        "oncegate.engine.admission::Admission.overloaded",
        delete("self.refused += 1"),
        f"{_PAGE}::test_a_refused_request_is_counted",
    ),
    one(
        "every duplicate of one's own is a retry",
        "oncegate.index.claims.firsts::duplicates_of",
        replace("Cause.UPSTREAM", "Cause.CLIENT_RETRY"),
        f"{_CAUSES}::test_an_id_twice_in_one_attempt_is_twice_in_its_source",
    ),
    one(
        "a retry is known by the claim that is remembered alone",
        "oncegate.index.claims.firsts::duplicates_of",
        replace("asked.is_repeat | held & (holders.call[found] == asked.call)", "asked.is_repeat"),
        f"{_CAUSES}::test_a_repeat_is_one_also_when_its_claim_is_forgotten",
    ),
    one(
        "any batch scope is the same one",
        "oncegate.index.claims.firsts::duplicates_of",
        replace("held & np.isin(found, store.scopes.rows_in(*asked.scope))", "held"),
        f"{_CAUSES}::test_another_attempt_under_one_batch_scope_is_a_task_that_ran_again",
    ),
    one(
        "an unknown cause is reported as a task's retry",
        "oncegate.index.claims.firsts::duplicates_of",
        replace("np.full(len(at), Cause.UNKNOWN, np.uint8)", "np.full(len(at), Cause.TASK_RETRY, np.uint8)"),
        f"{_CAUSES}::test_of_another_attempt_nothing_is_known",
    ),
    one(
        "a taken id has no other job",
        "oncegate.index.claims.firsts::duplicates_of",
        delete("causes[held & is_taken | asked.takes] = Cause.OTHER_JOB"),
        f"{_CAUSES}::test_ids_taken_by_an_owner_are_another_jobs",
    ),
    one(
        "duplicates of claims that are batched have no cause",
        "oncegate.engine.usecases.claim_batching::ClaimBatcher._duplicates",
        replace(
            "Action.DUPLICATE not in claim_batch.answers.actions[at].tobytes()",
            "len(claim_batch.answers.actions[at]) >= 0",
        ),
        f"{_CAUSES}::test_every_duplicate_has_one_cause_whichever_way_it_was_decided",
    ),
    one(
        "a zombie is not counted",
        "oncegate.engine.usecases.producers::Producers.decide",
        delete("self.journal.counts.add_cause(...)"),
        f"{_CAUSES}::test_sequences_of_an_older_epoch_came_by_a_task_that_ran_again_and_a_fenced_ones_by_a_zombie",
    ),
    one(
        "a replayed batch is not counted",
        "oncegate.engine.usecases.batches::Batches._commit",
        delete("journal.counts.add_cause(...)"),
        f"{_CAUSES}::test_a_name_that_is_committed_again_is_a_replayed_batch",
    ),
    one(
        "ids that left memory have no age",
        "oncegate.index.claims.firsts::duplicates_of",
        replace("archives is not None", "archives is None"),
        f"{_CAUSES}::test_an_id_that_left_memory_is_as_old_as_the_newest_that_left_with_it",
    ),
)
