"""Planted bugs of the metrics: what is counted and not shown, or shown where nobody knows it."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import ENGINE, INDEX

_PAGE = "tests/transports/http/test_metrics.py"
_READ = "tests/engine/test_metrics.py"
_PANELS = "tests/deploy/test_dashboards.py"
_RULES = "tests/deploy/test_rules.py"
_CAUSES = "tests/engine/test_duplicate_causes.py"
_FIRSTS = f"{INDEX}/claims/firsts.py"
_FAMILIES = f"{ENGINE}/metrics/families.py"
_READER = f"{ENGINE}/metrics/reader.py"

METRICS: tuple[Mutant, ...] = (
    one(
        "a metric forgets a verdict",
        _FAMILIES,
        "    keys = [() if row.label is None else (row.label[1],) for row in rows]",
        "    rows = rows[:7]\n    keys = [() if row.label is None else (row.label[1],) for row in rows]",
        f"{_PAGE}::test_every_counter_of_the_api_is_the_number_that_its_series_shows",
    ),
    one(
        "an append whose end is unknown is not counted",
        f"{ENGINE}/commit/group_commit.py",
        "            self._counts.add(APPENDS_LOST)\n",
        "",
        f"{_READ}::test_an_append_is_counted_by_how_it_ended_and_by_how_many_changes_it_took",
    ),
    one(
        "every append is of one change",
        f"{ENGINE}/commit/group_commit.py",
        "            self._counts.changes.observe(len(group))\n",
        "            self._counts.changes.observe(1)\n",
        f"{_READ}::test_an_append_is_counted_by_how_it_ended_and_by_how_many_changes_it_took",
    ),
    one(
        "a claim that is not batched is not timed",
        f"{ENGINE}/usecases/claim_batching.py",
        "            result = await self._claims.claim(request, lease_ms, deadline)\n",
        "            return await self._claims.claim(request, lease_ms, deadline)\n",
        f"{_READ}::test_every_answered_claim_is_timed_once_whatever_way_it_went",
    ),
    one(
        "a claim is timed before it is durable",
        f"{ENGINE}/usecases/claim_batching.py",
        "            result = await self._claim_with_others(request, lease_ms, deadline)\n",
        "            self._journal.counts.claims.observe(0)\n"
        "            return await self._claim_with_others(request, lease_ms, deadline)\n",
        f"{_READ}::test_every_answered_claim_is_timed_once_whatever_way_it_went",
    ),
    one(
        "the share of duplicates is of what was granted",
        "deploy/prometheus/rules.yaml",
        "          / clamp_min(sum by (namespace) (rate(oncegate_answered_ids_total[5m])), 1e-9)",
        '          / clamp_min(sum by (namespace) (rate(oncegate_answered_ids_total{verdict="granted"}[5m])), 1e-9)',
        f"{_RULES}::test_no_alert_fires_beside_it",
    ),
    one(
        "a panel shows NaN while nothing happens",
        "deploy/grafana/dashboards/duplicates.json",
        '[$__rate_interval])), 1e-9)",\n     "legendFormat": "Duplicate share",\n',
        '[$__rate_interval])), 0)",\n     "legendFormat": "Duplicate share",\n',
        f"{_PANELS}::test_every_panel_shows_a_number_while_nothing_happens_and_moves_with_duplicates",
    ),
    one(
        "Grafana looks for dashboards where none are",
        "deploy/compose.yaml",
        "      - ./grafana/dashboards:/etc/grafana/dashboards:ro",
        "      - ./grafana/dashboards:/var/lib/grafana/dashboards:ro",
        "tests/deploy/test_compose.py::test_grafana_reads_the_dashboards_where_it_is_told_that_they_are",
    ),
    one(
        "an alert on a metric that there is not",
        "deploy/prometheus/rules.yaml",
        "rate(oncegate_admission_refused_requests_total[5m])",
        "rate(oncegate_refused_requests_total[5m])",
        f"{_RULES}::test_a_rule_names_only_what_the_gateway_has",
    ),
    one(
        "a series is missing until something happens",
        _FAMILIES,
        "        return {key: value for key, value in zip(keys, shown, strict=True) if value is not None}",
        "        return {key: value for key, value in zip(keys, shown, strict=True) if value}",
        f"{_PAGE}::test_every_series_is_there_before_anything_was_asked",
    ),
    one(
        "a namespace that recovers shows nothing",
        _READER,
        "        owners = gateway.owners()\n",
        "        owners = [owner for owner in gateway.owners() if owner.shard is not None]\n",
        f"{_READ}::test_a_namespace_that_recovers_shows_its_state_and_what_was_answered",
    ),
    one(
        "each ownership counts from zero",
        f"{ENGINE}/recovery/shard_opening.py",
        "        opened.row_topics,\n        counts,\n",
        "        opened.row_topics,\n",
        f"{_READ}::test_a_namespace_that_recovers_shows_its_state_and_what_was_answered",
    ),
    one(
        "a counter goes back with what a full disk refused",
        f"{ENGINE}/counts/counts.py",
        "            value = self._highest[row.name] = max(value, self._highest.get(row.name, 0))\n",
        "            self._highest[row.name] = value\n",
        f"{_READ}::test_a_counter_is_not_less_after_a_full_disk_took_back_what_it_counted",
    ),
    one(
        "a label for every namespace",
        _READER,
        "            if len(self._alone) < most:",
        "            if len(self._alone) >= 0:",
        f"{_READ}::test_namespaces_beyond_the_limit_are_told_together",
    ),
    one(
        "a namespace jumps to a place that became free",
        _READER,
        "        for name in sorted(present - self._together.keys() - self._alone):",
        "        for name in sorted(present - self._alone):",
        f"{_READ}::test_one_told_together_stays_there_and_what_it_counted_stays_when_it_is_deleted",
    ),
    one(
        "what a deleted namespace counted vanishes from the sum",
        _READER,
        "            self._left = _merged([self._left, self._together.pop(gone)])",
        "            self._together.pop(gone)",
        f"{_READ}::test_one_told_together_stays_there_and_what_it_counted_stays_when_it_is_deleted",
    ),
    one(
        "all namespaces are read at once",
        _READER,
        "            if n % NAMESPACES_AT_ONCE == 0:",
        "            if n < 0:",
        f"{_READ}::test_many_namespaces_are_read_a_few_at_a_time",
    ),
    one(
        "a version in Accept that nobody else takes",
        "service/oncegate/transports/http/negotiation.py",
        "    best = _best(_without_parameters(header), tuple(writes))",
        "    best = _best(header, tuple(writes))",
        f"{_PAGE}::test_it_comes_in_the_format_that_the_reader_likes_best",
    ),
    one(
        "a refused request is not counted",
        f"{ENGINE}/admission.py",
        "        self.refused += 1\n",
        "",
        f"{_PAGE}::test_a_refused_request_is_counted",
    ),
    one(
        "every duplicate of one's own is a retry",
        _FIRSTS,
        "    causes[is_own] = Cause.UPSTREAM\n",
        "    causes[is_own] = Cause.CLIENT_RETRY\n",
        f"{_CAUSES}::test_what_one_attempt_brings_twice_its_source_has_twice",
    ),
    one(
        "a retry is known by the claim that is remembered alone",
        _FIRSTS,
        "asked.is_repeat | (held & (holders.call[found] == asked.call))",
        "asked.is_repeat",
        f"{_CAUSES}::test_a_repeat_is_one_also_when_its_claim_is_forgotten",
    ),
    one(
        "any batch scope is the same one",
        _FIRSTS,
        "held & np.isin(found, store.scopes.rows_in(*asked.scope))",
        "held",
        f"{_CAUSES}::test_another_attempt_under_one_batch_scope_is_a_task_that_ran_again",
    ),
    one(
        "what nobody knows is told as a task's retry",
        _FIRSTS,
        "    causes = np.full(len(at), Cause.UNKNOWN, np.uint8)",
        "    causes = np.full(len(at), Cause.TASK_RETRY, np.uint8)",
        f"{_CAUSES}::test_of_another_attempt_nothing_is_known",
    ),
    one(
        "a taken id has no other job",
        _FIRSTS,
        "    causes[(held & is_taken) | asked.takes] = Cause.OTHER_JOB\n",
        "",
        f"{_CAUSES}::test_what_an_owner_took_is_another_jobs",
    ),
    one(
        "ids named twice in a request have no cause",
        f"{ENGINE}/counts/counts.py",
        "            self._add_causes([same if one is Cause.UPSTREAM else 0 for one in Cause])\n",
        "            self._add_causes([0 for _ in Cause])\n",
        f"{_CAUSES}::test_every_duplicate_has_one_cause_whichever_way_it_was_decided",
    ),
    one(
        "duplicates of claims that are batched have no cause",
        f"{ENGINE}/usecases/claim_batching.py",
        "        if Action.DUPLICATE not in claim_batch.answers.actions[at].tobytes():",
        "        if len(claim_batch.answers.actions[at]) >= 0:",
        f"{_CAUSES}::test_every_duplicate_has_one_cause_whichever_way_it_was_decided",
    ),
    one(
        "a zombie is not counted",
        f"{ENGINE}/usecases/producers.py",
        "            self._journal.counts.add_cause(Cause.ZOMBIE, len(request.sequences))\n",
        "",
        f"{_CAUSES}::test_sequences_of_an_older_epoch_came_by_a_task_that_ran_again_and_a_fenced_ones_by_a_zombie",
    ),
    one(
        "a replayed batch is not counted",
        f"{ENGINE}/usecases/batches.py",
        "        journal.counts.add_cause(Cause.ZOMBIE if is_late else Cause.BATCH_REPLAY, rows)\n",
        "",
        f"{_CAUSES}::test_a_name_that_is_committed_again_is_a_replayed_batch",
    ),
    one(
        "ids that left memory have no age",
        _FIRSTS,
        "    if archives is not None:\n        times_ms",
        "    if archives is None:\n        times_ms",
        f"{_CAUSES}::test_an_id_that_left_memory_is_as_old_as_the_newest_that_left_with_it",
    ),
    one(
        "a bucket of ages takes what is older than its bound",
        f"{ENGINE}/counts/histogram.py",
        "        at = np.searchsorted(self.bounds, values)",
        '        at = np.searchsorted(self.bounds, values, side="right")',
        f"{_CAUSES}::test_a_duplicate_is_as_old_as_its_first",
    ),
)
