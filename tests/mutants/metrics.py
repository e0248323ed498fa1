"""Planted bugs of the metrics: what is counted and not shown, or shown where nobody knows it."""

from tests.mutants.edits import Text, delete, insert, replace, replace_statement, without
from tests.mutants.mutant import Mutant, one

_PAGE = "tests/transports/http/test_metrics.py"
_READ = "tests/engine/test_metrics.py"
_PANELS = "tests/deploy/test_dashboards.py"
_RULES = "tests/deploy/test_rules.py"
_CAUSES = "tests/engine/test_duplicate_causes.py"

METRICS: tuple[Mutant, ...] = (
    one(
        "a metric forgets a verdict",
        "oncegate.engine.metrics.families::_counted",
        insert("rows = rows[:7]", before="keys = [() if row.label is None else (row.label[1],) for row in rows]"),
        f"{_PAGE}::test_every_counter_of_the_api_is_the_number_that_its_series_shows",
    ),
    one(
        "an append whose end is unknown is not counted",
        "oncegate.engine.commit.group_commit::GroupCommit._write",
        delete("self._counts.add(APPENDS_LOST)"),
        f"{_READ}::test_an_append_is_counted_by_how_it_ended_and_by_how_many_changes_it_took",
    ),
    one(
        "every append is of one change",
        "oncegate.engine.commit.group_commit::GroupCommit._write",
        replace("len(group)", "1"),
        f"{_READ}::test_an_append_is_counted_by_how_it_ended_and_by_how_many_changes_it_took",
    ),
    one(
        "a claim that is not batched is not timed",
        "oncegate.engine.usecases.claim_batching::ClaimBatcher.claim",
        replace_statement(
            "result = await self._claims.claim(request, lease_ms, deadline)",
            "return await self._claims.claim(request, lease_ms, deadline)",
        ),
        f"{_READ}::test_every_answered_claim_is_timed_once_whatever_way_it_went",
    ),
    one(
        "a claim is timed before it is durable",
        "oncegate.engine.usecases.claim_batching::ClaimBatcher.claim",
        replace_statement(
            "result = await self._claim_with_others(request, lease_ms, deadline)",
            (
                "self._journal.counts.claims.observe(0)\n"
                "return await self._claim_with_others(request, lease_ms, deadline)"
            ),
        ),
        f"{_READ}::test_every_answered_claim_is_timed_once_whatever_way_it_went",
    ),
    one(
        "the share of duplicates is of what was granted",
        "deploy/prometheus/rules.yaml",
        Text(
            "          / clamp_min(sum by (namespace) (rate(oncegate_answered_ids_total[5m])), 1e-9)",
            "          / clamp_min(sum by (namespace) "
            '(rate(oncegate_answered_ids_total{verdict="granted"}[5m])), 1e-9)',
        ),
        f"{_RULES}::test_no_alert_fires_beside_it",
    ),
    one(
        "a panel shows NaN while nothing happens",
        "deploy/grafana/dashboards/duplicates.json",
        Text(
            '[$__rate_interval])), 1e-9)",\n     "legendFormat": "Duplicate share",\n',
            '[$__rate_interval])), 0)",\n     "legendFormat": "Duplicate share",\n',
        ),
        f"{_PANELS}::test_every_panel_shows_a_number_while_nothing_happens_and_moves_with_duplicates",
    ),
    one(
        "Grafana looks for dashboards where none are",
        "deploy/compose.yaml",
        Text(
            "      - ./grafana/dashboards:/etc/grafana/dashboards:ro",
            "      - ./grafana/dashboards:/var/lib/grafana/dashboards:ro",
        ),
        "tests/deploy/test_compose.py::test_grafana_reads_the_dashboards_where_it_is_told_that_they_are",
    ),
    one(
        "an alert on a metric that there is not",
        "deploy/prometheus/rules.yaml",
        Text("rate(oncegate_admission_refused_requests_total[5m])", "rate(oncegate_refused_requests_total[5m])"),
        f"{_RULES}::test_a_rule_names_only_what_the_gateway_has",
    ),
    one(
        "a series is missing until something happens",
        "oncegate.engine.metrics.families::_counted.of_owner",
        replace("value is not None", "value"),
        f"{_PAGE}::test_every_series_is_there_before_anything_was_asked",
    ),
    one(
        "a namespace that recovers shows nothing",
        "oncegate.engine.metrics.reader::MetricsReader._read_owners",
        replace("gateway.owners()", "[owner for owner in gateway.owners() if owner.shard is not None]"),
        f"{_READ}::test_a_namespace_that_recovers_shows_its_state_and_what_was_answered",
    ),
    one(
        "each ownership counts from zero",
        "oncegate.engine.recovery.shard_opening::_shard_of",
        without("counts"),
        f"{_READ}::test_a_namespace_that_recovers_shows_its_state_and_what_was_answered",
    ),
    one(
        "a counter goes back with what a full disk refused",
        "oncegate.engine.counts.counts::Counts.shown",
        replace_statement(
            "value = self._highest[row.name] = max(value, self._highest.get(row.name, 0))",
            "self._highest[row.name] = value",
        ),
        f"{_READ}::test_a_counter_is_not_less_after_a_full_disk_took_back_what_it_counted",
    ),
    one(
        "a label for every namespace",
        "oncegate.engine.metrics.reader::MetricsReader._assign",
        replace("len(self._alone) < most", "len(self._alone) >= 0"),
        f"{_READ}::test_namespaces_beyond_the_limit_are_told_together",
    ),
    one(
        "a namespace jumps to a place that became free",
        "oncegate.engine.metrics.reader::MetricsReader._assign",
        replace("present - self._together.keys()", "present"),
        f"{_READ}::test_one_told_together_stays_there_and_what_it_counted_stays_when_it_is_deleted",
    ),
    one(
        "what a deleted namespace counted vanishes from the sum",
        "oncegate.engine.metrics.reader::MetricsReader._assign",
        replace_statement("self._left = _merged([self._left, self._together.pop(gone)])", "self._together.pop(gone)"),
        f"{_READ}::test_one_told_together_stays_there_and_what_it_counted_stays_when_it_is_deleted",
    ),
    one(
        "all namespaces are read at once",
        "oncegate.engine.metrics.reader::MetricsReader._read_owners",
        replace("n % NAMESPACES_AT_ONCE == 0", "n < 0"),
        f"{_READ}::test_many_namespaces_are_read_a_few_at_a_time",
    ),
    one(
        "a version in Accept that nobody else takes",
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
        f"{_CAUSES}::test_what_one_attempt_brings_twice_its_source_has_twice",
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
        "what nobody knows is told as a task's retry",
        "oncegate.index.claims.firsts::duplicates_of",
        replace("np.full(len(at), Cause.UNKNOWN, np.uint8)", "np.full(len(at), Cause.TASK_RETRY, np.uint8)"),
        f"{_CAUSES}::test_of_another_attempt_nothing_is_known",
    ),
    one(
        "a taken id has no other job",
        "oncegate.index.claims.firsts::duplicates_of",
        delete("causes[held & is_taken | asked.takes] = Cause.OTHER_JOB"),
        f"{_CAUSES}::test_what_an_owner_took_is_another_jobs",
    ),
    one(
        "ids named twice in a request have no cause",
        "oncegate.engine.counts.counts::Counts.add_ids",
        replace("[same if one is Cause.UPSTREAM else 0 for one in Cause]", "[0 for _ in Cause]"),
        f"{_CAUSES}::test_every_duplicate_has_one_cause_whichever_way_it_was_decided",
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
        delete("self._journal.counts.add_cause(...)"),
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
    one(
        "a bucket of ages takes what is older than its bound",
        "oncegate.engine.counts.histogram::Histogram.tally",
        replace("np.searchsorted(self.bounds, values)", "np.searchsorted(self.bounds, values, side='right')"),
        f"{_CAUSES}::test_a_duplicate_is_as_old_as_its_first",
    ),
)
