"""Planted bugs of the background: what hangs, or fails in silence, when something there raises."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import ENGINE, INDEX, LOG

_ANYWHERE = "tests/engine/recovery/test_raised_anywhere.py"
_AT_ANY_WAIT = f"{_ANYWHERE}::test_an_error_at_any_wait_is_told_and_the_namespace_serves_again"
_LONG = "tests/engine/recovery/test_long_recovery.py"
_RUNS = "tests/engine/maintenance/test_runs_of_another_history.py"
_COMPACTION = "tests/faults/ledger/test_compaction.py"
_SNAPSHOTTER = "tests/engine/maintenance/test_snapshotter.py"

_CLAIMS_COLLECTED = "tests/engine/maintenance/test_claims_collected.py"

BACKGROUND: tuple[Mutant, ...] = (
    one(
        "a namespace that is only written in is compacted once",
        f"{ENGINE}/maintenance/scheduler.py",
        "        if journal.size_bytes < threshold_bytes:\n",
        "        if journal.size_bytes < threshold_bytes or self._snapshot_bytes:\n",
        f"{_CLAIMS_COLLECTED}::test_a_ledger_of_new_ids_alone_is_compacted_again_and_again",
    ),
    one(
        "a snapshot is written for each little that came since",
        f"{ENGINE}/maintenance/scheduler.py",
        "max(journal.limits.collect_bytes, 2 * self._snapshot_bytes)",
        "journal.limits.collect_bytes",
        f"{_CLAIMS_COLLECTED}::test_a_ledger_of_new_ids_alone_is_compacted_again_and_again",
    ),
    one(
        "a second snapshot in the window of the first",
        f"{ENGINE}/maintenance/snapshotter.py",
        "        self._steps, self._requested = steps, None\n        await self._group_commit.append_all()\n",
        "        self._requested = None\n        await self._group_commit.append_all()\n        self._steps = steps\n",
        f"{_SNAPSHOTTER}::test_no_second_snapshot_is_accepted_while_the_first_waits_for_its_append",
    ),
    one(
        "an error of our own leaves whoever waits waiting",
        f"{ENGINE}/commit/group_commit.py",
        '            self.die(unknown_end("the group commit", error))\n            if not isinstance(error, Exception):\n',
        "            if True:\n",
        f"{_AT_ANY_WAIT}[group commit]",
    ),
    one(
        "an upkeep that ends in silence",
        f"{ENGINE}/gateway.py",
        "            upkeep.get_loop().call_later(EVICTION_MS / 1_000, self._upkeep_again)\n",
        "            pass\n",
        f"{_LONG}::test_upkeep_that_raised_is_told_and_goes_on",
    ),
    one(
        "a traceback keeps the index in its snapshot",
        f"{ENGINE}/maintenance/scheduler.py",
        "        with closing(steps):\n",
        "        if True:\n",
        f"{_SNAPSHOTTER}::test_a_step_that_raises_ends_the_snapshot_and_the_next_one_is_whole",
    ),
    one(
        "a failed compaction that nobody is told of",
        f"{ENGINE}/maintenance/scheduler.py",
        '        self._journal.observer.event("compaction_failed", namespace=self._journal.namespace, **why)\n',
        "",
        f"{_SNAPSHOTTER}::test_why_the_ledger_is_not_compacted_is_told_once_a_minute_and_shown",
    ),
    one(
        "a shard that is dead and waits is told of when it has waited",
        f"{ENGINE}/commit/group_commit.py",
        "        self._wake.set()\n        self.when_dead(error)\n",
        "        self._wake.set()\n",
        f"{_LONG}::test_a_shard_whose_append_hangs_after_its_end_is_unknown_is_told_of_at_once",
    ),
    one(
        "an append under way is told as not written where its ledger is found to have ended",
        f"{ENGINE}/recovery/owner.py",
        "            shard.group_commit.end_beside_appends(error)\n",
        "            shard.group_commit.die(error)\n",
        "tests/engine/recovery/test_unknown_end.py::"
        "test_an_append_under_way_is_unknown_where_another_gateway_is_found_to_own_the_ledger",
    ),
    one(
        "who waits for an append that was under way when its ledger ended is told that nothing was written",
        f"{ENGINE}/commit/group_commit.py",
        "self.dead if position > self._in_doubt_to else LedgerDown(_IN_DOUBT)",
        "self.dead",
        "tests/engine/commit/test_durable_before_said.py::"
        "test_an_append_under_way_is_in_doubt_where_its_ledger_ends_beside_it",
    ),
    one(
        "a long recovery told once",
        f"{ENGINE}/recovery/owner.py",
        "        self._watched_ms, waited_ms = now_ms, ",
        "        self._watched_ms, waited_ms = 2 * now_ms, ",
        f"{_LONG}::test_whoever_recovers_for_a_minute_is_told_of_each_minute_with_the_reason",
    ),
    one(
        "a close that waits for the whole catalog",
        "service/oncegate/ledgers/snapshotting.py",
        "        if self._ending.is_set():\n",
        "        if False:\n",
        "tests/faults/ledger/test_closing_in_a_compaction.py"
        "::test_a_catalog_is_written_no_further_once_its_ledger_closes",
    ),
    one(
        "a close that waits for a snapshot",
        f"{LOG}/ledger.py",
        "        self._letting_go.set()\n",
        "",
        "tests/faults/ledger/test_compaction.py::test_a_ledger_is_closed_though_the_rest_of_a_snapshot_never_comes",
    ),
    one(
        "a replay whose thread waits for ever",
        f"{ENGINE}/recovery/replay.py",
        "        queue.stop()\n",
        "",
        "tests/engine/recovery/test_replay.py::"
        "test_a_replay_that_is_cancelled_leaves_no_thread_that_waits_though_its_reading_hangs",
    ),
    one(
        "an end without a last resort",
        "service/oncegate/app.py",
        "            end_within(settings.process.shutdown_ms, log.error)\n",
        "            pass\n",
        "tests/transports/http/test_serve.py::test_a_program_that_hangs_in_its_end_ends_in_its_time_and_its_log_says_so",
    ),
    one(
        "runs of another history are believed",
        f"{ENGINE}/maintenance/run_files.py",
        'run.meta["salt"] in bound or self._is_of_history(run.meta["mark"])',
        "True",
        f"{_RUNS}::test_ids_of_a_history_that_did_not_happen_are_new",
    ),
    one(
        "runs that a compaction cuts off from their mark",
        f"{ENGINE}/maintenance/eviction.py",
        "            await asyncio.to_thread(self._files.bind, runs, mark)\n",
        "            pass\n",
        f"{_RUNS}::test_runs_are_used_again_after_a_compaction_and_restarts_without_being_made_again",
    ),
    one(
        "what a snapshot brings counts as settled long ago",
        f"{INDEX}/claims/replay.py",
        "            store.rows.reset_leases(now_ms)\n            restored = False\n",
        "            restored = False\n",
        f"{_SNAPSHOTTER}::test_a_claim_settled_before_a_compaction_is_known_after_a_restart",
    ),
    one(
        "an ack that is taken back leaves its rows off the list",
        f"{INDEX}/claims/apply.py",
        "        store.expiry.add_all(due)\n",
        "        if change.scopes is None:\n            store.expiry.add_all(due)\n",
        "tests/index/claims/test_retirement.py::test_what_was_acked_and_taken_back_retires_all_the_same",
    ),
    one(
        "a kind of old ids is kept for ever",
        f"{INDEX}/lsm/archives.py",
        "            self._forget_kinds()\n",
        "",
        "tests/engine/maintenance/test_eviction_times.py::test_what_stands_for_an_owner_goes_with_the_last_of_its_ids",
    ),
    one(
        "the catalog is one frame again",
        "service/oncegate/ledgers/snapshotting.py",
        "        with closing(self._catalog.parts()) as parts:\n",
        "        whole = Catalog()\n        whole.__dict__ |= self._catalog.__dict__\n"
        "        self.changes_since += list(whole._waiting.values())\n"
        "        for (name, partition), topic in whole._topics.items():\n"
        '            held = b"".join(topic.ranges.frozen())\n'
        '            self.changes_since.append(__import__("oncegate.ledgers.catalog").ledgers.catalog.Held('
        "name, partition, topic.low, held))\n"
        "        return\n        with closing(self._catalog.parts()) as parts:\n",
        f"{_COMPACTION}::test_a_catalog_larger_than_a_frame_is_compacted_and_found_again",
    ),
    one(
        "what changed while the catalog was written down is forgotten",
        f"{LOG}/writer.py",
        "[compacted, *changes]",
        "[compacted]",
        f"{_COMPACTION}::test_what_changes_while_the_catalog_is_written_down_is_in_it",
    ),
    one(
        "what changed first while the catalog was written down is forgotten",
        "service/oncegate/ledgers/snapshotting.py",
        "            changes, self.changes_since = self.changes_since, []\n",
        "            changes, self.changes_since = [], []\n",
        f"{_COMPACTION}::test_what_changes_while_the_catalog_is_written_down_is_in_it",
    ),
    one(
        "a collection that was replaced is needed for ever",
        f"{LOG}/opening/scan.py",
        "        self.catalog, self._known, self._unread = Catalog(), True, None\n",
        "        self.catalog, self._known = Catalog(), True\n",
        f"{_COMPACTION}::test_an_older_collection_whose_catalog_is_gone_is_not_needed",
    ),
    one(
        "ranges are encoded in one step",
        "service/oncegate/ledgers/catalog/catalog.py",
        "range(0, len(blocks), BLOCKS_PER_PIECE):\n            few.append(Held(topic, partition, low, "
        'b"".join(blocks[at : at + BLOCKS_PER_PIECE])))\n',
        'range(1):\n            few.append(Held(topic, partition, low, b"".join(blocks)))\n',
        "tests/faults/ledger/test_catalog.py::test_the_ranges_of_a_topic_are_many_small_pieces_that_make_the_same_again",
    ),
    one(
        "a settled claim is known for two leases only",
        f"{ENGINE}/recovery/shard_opening.py",
        "    index.claims.remember_for(world.limits.settled_claim_ms, world.limits.settled_claims_bytes)\n",
        "",
        "tests/engine/usecases/test_leases.py::test_a_settled_claim_is_known_as_long_as_clients_retry_though_its_lease_was_short",
    ),
    one(
        "settled claims without a bound",
        f"{INDEX}/claims/by_name.py",
        "            hurried = early or len(self._ending) > self._settled_max\n",
        "            hurried = early\n",
        "tests/engine/usecases/test_leases.py::test_where_settled_claims_fill_their_memory_the_oldest_go_first_and_are_counted",
    ),
    one(
        "ids stay in memory for the claims that are known",
        f"{INDEX}/claims/index.py",
        "        self.store.registry.forget_due(now_ms, early=True)\n",
        "        self.store.registry.forget_due(now_ms)\n",
        "tests/engine/maintenance/test_eviction.py",
    ),
)
