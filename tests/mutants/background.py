"""Planted bugs of background tasks that hang, or fail in silence, when one of them raises."""

from tests.mutants.edits import delete, insert, replace, replace_statement, without
from tests.mutants.mutant import Mutant, one

_ANYWHERE = "tests/engine/recovery/test_raised_anywhere.py"
_AT_ANY_WAIT = f"{_ANYWHERE}::test_an_error_at_any_wait_is_logged_and_the_namespace_serves_again"
_LONG = "tests/engine/recovery/test_long_recovery.py"
_RUNS = "tests/engine/maintenance/test_runs_of_another_history.py"
_COMPACTION = "tests/faults/ledger/test_compaction.py"
_SNAPSHOTTER = "tests/engine/maintenance/test_snapshotter.py"

_CLAIMS_COLLECTED = "tests/engine/maintenance/test_claims_collected.py"

BACKGROUND: tuple[Mutant, ...] = (
    one(
        "a namespace that is only written in is compacted once",
        "oncegate.engine.maintenance.scheduler::Scheduler.compact",
        replace("journal.size_bytes < threshold_bytes", "journal.size_bytes < threshold_bytes or self._snapshot_bytes"),
        f"{_CLAIMS_COLLECTED}::test_a_ledger_of_new_ids_alone_is_compacted_again_and_again",
    ),
    one(
        "a snapshot is written for each little that came since",
        "oncegate.engine.maintenance.scheduler::Scheduler.compact",
        replace("max(journal.limits.collect_bytes, 2 * self._snapshot_bytes)", "journal.limits.collect_bytes"),
        f"{_CLAIMS_COLLECTED}::test_a_ledger_of_new_ids_alone_is_compacted_again_and_again",
    ),
    Mutant(
        "a second snapshot in the window of the first",
        (
            (
                "oncegate.engine.maintenance.snapshotter::Snapshotter._begin",
                replace_statement("self._steps, self._requested = steps, None", "self._requested = None"),
            ),
            (
                "oncegate.engine.maintenance.snapshotter::Snapshotter._begin",
                insert("self._steps = steps", after="await self._group_commit.append_all()"),
            ),
        ),
        (f"{_SNAPSHOTTER}::test_no_second_snapshot_is_accepted_while_the_first_waits_for_its_append",),
    ),
    Mutant(
        "an internal error leaves callers waiting",
        (
            (
                "oncegate.engine.commit.group_commit::GroupCommit.run",
                replace_statement("self.write_end(...)", "if True:\n    raise"),
            ),
            (
                "oncegate.engine.commit.group_commit::GroupCommit.run",
                delete("if not isinstance(error, Exception):\n    ..."),
            ),
        ),
        (f"{_AT_ANY_WAIT}[group commit]",),
    ),
    one(
        "an upkeep that ends in silence",
        "oncegate.engine.gateway::Gateway._upkeep_ended",
        delete("upkeep.get_loop().call_later(...)"),
        f"{_LONG}::test_upkeep_that_raised_is_logged_and_continues",
    ),
    one(
        "a traceback keeps the index in its snapshot",
        "oncegate.engine.maintenance.scheduler::Scheduler._encoded",
        replace_statement(
            "with closing(steps):\n    ...",
            (
                "if True:\n"
                "    for entries in steps:\n"
                "        bodies = [encode(entry) for entry in entries]\n"
                "        self._sizes = (self._sizes[0] + sum(map(len, bodies)), self._sizes[1])\n"
                "        yield bodies"
            ),
        ),
        f"{_SNAPSHOTTER}::test_a_step_that_raises_ends_the_snapshot_and_the_next_one_is_whole",
    ),
    one(
        "a failed compaction is not reported",
        "oncegate.engine.maintenance.scheduler::Scheduler._compacted",
        delete("self._journal.observer.event(...)"),
        f"{_SNAPSHOTTER}::test_the_reason_against_compacting_is_logged_once_a_minute_and_shown",
    ),
    one(
        "a dead shard is reported only after its wait",
        "oncegate.engine.commit.group_commit::GroupCommit._report",
        delete("self.when_ended(...)"),
        f"{_LONG}::test_a_shard_whose_append_hangs_after_an_unknown_outcome_is_logged_at_once",
    ),
    one(
        "an append in flight is reported as not written when its ledger is found to have ended",
        "oncegate.core.lifecycle::EndCell.write_beside",
        replace("end_of(error, beside=True)", "end_of(error)"),
        "tests/engine/recovery/test_unknown_end.py::"
        "test_an_append_under_way_is_unknown_where_another_gateway_is_found_to_own_the_ledger",
    ),
    one(
        "callers of an append in flight are told that nothing was written when its ledger ends",
        "oncegate.engine.commit.group_commit::GroupCommit.wait",
        replace("LedgerDown(_IN_DOUBT) if is_in_doubt else ending.again()", "ending.again()"),
        "tests/engine/commit/test_durable_before_said.py::"
        "test_an_append_under_way_is_in_doubt_where_its_ledger_ends_beside_it",
    ),
    one(
        "a long recovery is reported only once",
        "oncegate.engine.recovery.owner::Owner._watch",
        replace("(now_ms, now_ms - self._recovering_ms)", "(2 * now_ms, now_ms - self._recovering_ms)"),
        f"{_LONG}::test_a_recovery_of_minutes_is_logged_each_minute_with_the_reason",
    ),
    one(
        "a close that waits for the whole catalog",
        "oncegate.ledgers.snapshotting::SnapshotTaking._add",
        replace("self._ending.is_set()", "False"),
        "tests/faults/ledger/test_closing_in_a_compaction.py"
        "::test_a_catalog_is_written_no_further_once_its_ledger_closes",
    ),
    one(
        "a close that waits for a snapshot",
        "oncegate.ledgers.log.ledger::LogLedger.close",
        delete("self._letting_go.set()"),
        "tests/faults/ledger/test_compaction.py::test_a_ledger_is_closed_though_the_rest_of_a_snapshot_never_comes",
    ),
    one(
        "a replay whose thread waits for ever",
        "oncegate.engine.recovery.replay::replay",
        delete("queue.stop()"),
        "tests/engine/recovery/test_replay.py::"
        "test_a_replay_that_is_cancelled_leaves_no_thread_that_waits_though_its_reading_hangs",
    ),
    one(
        "an end without a last resort",
        "oncegate.app::serve.stopped",
        delete("end_within(...)"),
        "tests/transports/http/test_serve.py::test_a_program_that_hangs_at_its_end_ends_in_its_time_and_its_log_records_that",
    ),
    one(
        "runs of another history are believed",
        "oncegate.engine.maintenance.run_files::RunFiles._open",
        replace("run.meta['salt'] in bound or self._is_of_history(run.meta['mark'])", "True"),
        f"{_RUNS}::test_ids_of_a_history_that_did_not_happen_are_new",
    ),
    one(
        "runs that a compaction cuts off from their mark",
        "oncegate.engine.maintenance.eviction::Eviction._bind",
        delete("await asyncio.to_thread(...)"),
        f"{_RUNS}::test_runs_are_used_again_after_a_compaction_and_restarts_without_being_made_again",
    ),
    one(
        "claims from a snapshot count as settled long ago",
        "oncegate.index.claims.replay::replay",
        delete("store.rows.reset_leases(now_ms)", nth=1),
        f"{_SNAPSHOTTER}::test_a_claim_settled_before_a_compaction_is_known_after_a_restart",
    ),
    one(
        "an ack that is taken back leaves its rows off the list",
        "oncegate.index.claims.apply::undo",
        replace_statement("store.expiry.add_all(...)", "if change.scopes is None:\n    store.expiry.add_all(due)"),
        "tests/index/claims/test_retirement.py::test_acked_and_undone_ids_retire_all_the_same",
    ),
    one(
        "a kind of old ids is kept for ever",
        "oncegate.index.lsm.archives::ArchiveIndex.settle",
        delete("self._forget_kinds()"),
        "tests/engine/maintenance/test_eviction_times.py::test_an_owners_record_is_removed_with_the_last_of_its_ids",
    ),
    one(
        "the catalog is one frame again",
        "oncegate.ledgers.snapshotting::SnapshotTaking._write_catalog",
        insert(
            (
                "whole = Catalog()\n"
                "whole.__dict__ |= self._catalog.__dict__\n"
                "self.changes_since += list(whole._waiting.values())\n"
                "for (name, partition), topic in whole._topics.items():\n"
                "    held = b''.join(topic.ranges.frozen())\n"
                "    self.changes_since.append(__import__('oncegate.ledgers.catalog').ledgers.catalog.Held(name, partition, topic.low, held))\n"
                "return"
            ),
            after="self._saving_catalog = True",
        ),
        f"{_COMPACTION}::test_a_catalog_larger_than_a_frame_is_compacted_and_found_again",
    ),
    one(
        "what changed while the catalog was written down is forgotten",
        "oncegate.ledgers.log.writer::LogWriter.write_compacted",
        without("*changes"),
        f"{_COMPACTION}::test_what_changes_while_the_catalog_is_written_down_is_in_it",
    ),
    one(
        "what changed first while the catalog was written down is forgotten",
        "oncegate.ledgers.snapshotting::SnapshotTaking._write_catalog",
        replace("(self.changes_since, [])", "([], [])"),
        f"{_COMPACTION}::test_what_changes_while_the_catalog_is_written_down_is_in_it",
    ),
    Mutant(
        "a collection that was replaced is needed for ever",
        (
            (
                "oncegate.ledgers.log.opening.scan::Scan._read_catalog",
                replace("(self.catalog, self._known, self._unread)", "(self.catalog, self._known)"),
            ),
            ("oncegate.ledgers.log.opening.scan::Scan._read_catalog", without("None")),
        ),
        (f"{_COMPACTION}::test_an_older_collection_whose_catalog_is_gone_is_not_needed",),
    ),
    Mutant(
        "ranges are encoded in one step",
        (
            (
                "oncegate.ledgers.catalog::encoded_part",
                replace("range(0, len(blocks), BLOCKS_PER_PIECE)", "range(1)"),
            ),
            ("oncegate.ledgers.catalog::encoded_part", replace("blocks[at:at + BLOCKS_PER_PIECE]", "blocks")),
        ),
        (
            "tests/faults/ledger/test_catalog.py::test_the_ranges_of_a_topic_are_many_small_pieces_that_make_the_same_again",
        ),
    ),
    one(
        "a settled claim is known for two leases only",
        "oncegate.engine.recovery.shard_opening::opened_shard",
        delete("index.claims.registry.remember_for(...)"),
        "tests/engine/usecases/test_leases.py::test_a_settled_claim_is_known_as_long_as_clients_retry_though_its_lease_was_short",
    ),
    one(
        "settled claims without a bound",
        "oncegate.index.claims.by_name::ClaimRegistry.forget_due",
        replace("early or len(self._ending) > self._settled_max", "early"),
        "tests/engine/usecases/test_leases.py::test_where_settled_claims_fill_their_memory_the_oldest_go_first_and_are_counted",
    ),
    one(
        "ids stay in memory for the claims that are known",
        "oncegate.engine.maintenance.eviction::Eviction._evict",
        without("early="),
        "tests/engine/maintenance/test_eviction.py",
    ),
)
