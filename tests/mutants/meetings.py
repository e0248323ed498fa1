"""Planted bugs of coincidences: two events in one append, an arrival during an await, equality at a boundary."""

from tests.mutants.edits import delete, insert, move, replace, replace_statement, shift, swap
from tests.mutants.mutant import Mutant, one

_SHARING = "tests/index/claims/test_row_sharing.py"
_COMMITS = "tests/engine/usecases/test_commits.py"
_NAMES_AND_RANGES = "tests/index/snapshot/test_names_and_ranges.py"
_PRODUCERS = "tests/index/producers/test_index.py"
_INCOMING = "tests/transports/test_incoming.py"
_REPLAY = "tests/engine/recovery/test_replay.py"
_NAMES = "tests/transports/http/test_names.py"

MEETINGS: tuple[Mutant, ...] = (
    one(
        "staged by one layout and published in another",
        "oncegate.engine.usecases.batches::Batches._check_layout",
        replace("chunk.key_partitions not in (0, partitions)", "False"),
        "tests/engine/usecases/test_partitioning.py",
    ),
    one(
        "the layout of a stage forgotten by the index",
        "oncegate.index.batches::BatchIndex._staged",
        replace("entry.key_partitions", "0"),
        "tests/engine/usecases/test_partitioning.py",
    ),
    one(
        "an older name commits again",
        "oncegate.index.committed_names::CommittedNames.get",
        replace("self.older.get(name)", "None"),
        f"{_COMMITS}::test_an_older_name_never_commits_again_and_its_replay_is_judged_by_its_input",
    ),
    one(
        "an older name is recognized by the first bytes of its nonce",
        "oncegate.index.committed_names::short_nonce",
        replace("hashlib.sha256(nonce).digest()", "nonce"),
        f"{_COMMITS}::test_an_older_name_never_commits_again_and_its_replay_is_judged_by_its_input",
    ),
    one(
        "who asks for an older name is forgotten at once",
        "oncegate.index.committed_names::CommittedNames.ask",
        replace("self._keep(name, replace(asked, kept_position=position))", "_nothing"),
        "tests/index/test_committed_names.py::"
        "test_an_older_name_that_is_asked_for_is_one_of_the_last_again_and_who_asked_is_known",
    ),
    one(
        "an older name that is taken back stays",
        "oncegate.index.committed_names::CommittedNames._keep_whole.undo",
        delete("self.older.remove(gone)"),
        "tests/index/test_batches_undo.py::test_a_commit_that_made_the_oldest_name_forgotten_can_be_taken_back",
    ),
    one(
        "names are remembered whole without a bound",
        "oncegate.index.committed_names::CommittedNames._keep_whole",
        replace("len(self._order) > NAMES_REMEMBERED_IN_ALL", "False"),
        "tests/index/test_committed_names.py::test_names_remembered_whole_are_bounded_in_all",
    ),
    one(
        "names are encoded in one step",
        "oncegate.index.batches::snapshot_steps",
        replace("('older_names', older, _BLOCKS_PER_PIECE)", "('older_names', older, 1 << 40)"),
        f"{_NAMES_AND_RANGES}::test_names_stages_and_ranges_are_many_small_steps_that_make_the_same_again",
    ),
    one(
        "ranges of a topic are encoded in one step",
        "oncegate.index.topics",
        replace("(42, 1000, 100)", "(1 << 40, 1000, 100)"),
        f"{_NAMES_AND_RANGES}::test_names_stages_and_ranges_are_many_small_steps_that_make_the_same_again",
    ),
    one(
        "a snapshot of names is of a later moment",
        "oncegate.index.committed_names::CommittedNames.__init__",
        insert("self.older.frozen = lambda: self.older._blocks", after="self.older = OlderNames()"),
        f"{_NAMES_AND_RANGES}::test_a_snapshot_of_names_and_ranges_is_of_the_moment_at_which_it_began",
    ),
    one(
        "asks take all the memory there is",
        "oncegate.index.committed_names::CommittedNames._with_fewer_asks",
        replace("self.asks_bytes > ASKS_BYTES_IN_ALL and self._several", "False"),
        "tests/index/test_committed_names.py::test_asks_of_all_names_take_a_bounded_memory_and_the_newest_of_each_stays",
    ),
    one(
        "asks that were given up for one that is taken back stay gone",
        "oncegate.index.committed_names::CommittedNames.ask.undo",
        delete("undo_less()"),
        "tests/index/test_committed_names.py::test_asks_that_were_given_up_come_back_with_what_they_were_given_up_for",
    ),
    one(
        "older names out of order within a block",
        "oncegate.index.committed_names::_is_rising",
        replace("is_less.all", "is_less[:1].all"),
        "tests/index/test_committed_names.py::test_records_that_are_damaged_or_out_of_order_are_refused",
    ),
    one(
        "a snapshot of topics is of a later moment",
        "oncegate.index.topics::TopicIndex._extend",
        replace("self._changing(name)", "self._topics[name]"),
        f"{_NAMES_AND_RANGES}::test_a_snapshot_of_names_and_ranges_is_of_the_moment_at_which_it_began",
    ),
    one(
        "a snapshot of the catalog is of a later moment",
        "oncegate.ledgers.catalog::Catalog._changing",
        delete("if self._saved is not None:\n    ..."),
        "tests/faults/ledger/test_catalog.py::test_pieces_hold_the_catalog_at_the_time_of_the_request",
    ),
    one(
        "a snapshot of producers is of a later moment",
        "oncegate.index.producers.apply::_settle",
        delete("store.changing(...)"),
        f"{_PRODUCERS}::test_a_snapshot_of_producers_is_of_the_moment_at_which_it_began",
    ),
    one(
        "producers are encoded in one step",
        "oncegate.index.producers.snapshot",
        replace("(200, 1 << 20)", "(1 << 40, 1 << 60)"),
        f"{_PRODUCERS}::test_producers_are_saved_in_small_steps",
    ),
    one(
        "rows of a batch are saved as of a later moment",
        "oncegate.index.claims.batch_scopes::_parts",
        replace("min(count, at + _ROWS_PER_PART)", "at + _ROWS_PER_PART"),
        "tests/engine/usecases/test_batch_scopes.py::test_batches_are_saved_as_they_were_when_their_snapshot_began",
    ),
    one(
        "a snapshot that lacks names is believed",
        "oncegate.index.batches::BatchesReader._end",
        replace("rest.pieces != self._taken", "False"),
        f"{_NAMES_AND_RANGES}::test_a_snapshot_without_one_of_its_pieces_is_refused",
    ),
    one(
        "rows without keys are bound to a layout",
        "oncegate.engine.usecases.batches::Batches.stage",
        replace("0 if request.keys is None else partitions", "partitions"),
        "tests/engine/usecases/test_partitioning.py::test_rows_staged_without_keys_may_be_in_any_partition",
    ),
    one(
        "a lane's write on a lease that is half spent",
        "oncegate_spark.spark.writers.sequenced::LaneSettler._settle",
        replace("not self._holder.fresh(claimed)", "False"),
        "tests/client/spark/test_sequenced.py::test_no_write_of_a_lane_starts_when_half_its_lease_is_spent",
    ),
    Mutant(
        "a file let go of before its append is over",
        (
            (
                "oncegate.ledgers.log.ledger::LogLedger._apply",
                replace_statement(
                    "released += self._catalog.apply(change)",
                    (
                        "released = self._catalog.apply(change)\n"
                        "gone = self._range_counts.release(released)\n"
                        "if gone:\n"
                        "    self._writing.submit(self._writer.remove, gone)"
                    ),
                ),
            ),
            (
                "oncegate.ledgers.log.ledger::LogLedger._apply",
                delete("gone = self._range_counts.release(released)", nth=2),
            ),
            ("oncegate.ledgers.log.ledger::LogLedger._apply", delete("if gone:\n    ...", nth=2)),
        ),
        ("tests/faults/ledger/test_outputs.py::test_a_file_whose_last_range_goes_with_an_append_that_adds_one_stays",),
    ),
    one(
        "the mark at a collection forgotten",
        "oncegate.engine.commit.marks::Marks.compacted",
        replace("bisect_left(self._positions, position)", "bisect_left(self._positions, position + 1)"),
        "tests/engine/commit/test_marks.py::test_a_mark_just_at_a_collection_is_kept_and_compared",
    ),
    one(
        "any mark at a collection passes",
        "oncegate.engine.commit.marks::Marks.require",
        shift("mark.position < self._compacted"),
        "tests/engine/commit/test_marks.py::test_a_mark_just_at_a_collection_is_kept_and_compared",
    ),
    Mutant(
        "offsets read after the wait",
        (
            (
                "oncegate.engine.usecases.topics::Topics.remembered",
                move("await self.journal.group_commit.durable(...)", after="if topic is None:\n    ..."),
            ),
        ),
        ("tests/engine/usecases/test_topics.py::test_offsets_do_not_include_rows_that_came_while_waiting",),
    ),
    one(
        "one note for all writes of a batch",
        "oncegate_spark.spark.acks::note",
        replace("text.encode", "made.driver.encode"),
        "tests/client/spark/test_acks.py::test_two_writes_of_one_batch_are_both_acked",
    ),
    one(
        "frames that the witness saw during a sync are forgotten",
        "oncegate.ledgers.witness::WitnessWriter.sync",
        swap("self._dirty = False", "try:\n    ...\nexcept OSError as error:\n    ..."),
        "tests/faults/ledger/test_witness.py::test_positions_seen_during_a_sync_are_synced_by_the_next",
    ),
    one(
        "a row that leaves memory is shared",
        "oncegate.index.claims.row_sharing::RowSharing._shared",
        replace("(holders.remembered[done] == 0) & (holders.pins[done] == 0)", "holders.remembered[done] == 0"),
        f"{_SHARING}::test_a_row_that_is_leaving_memory_accepts_no_more_ids",
    ),
    one(
        "a shared row that retired meanwhile",
        "oncegate.index.claims.row_sharing::RowSharing._live",
        replace(("pools if live.all() else SharedRows(pools.buckets[live], pools.rows[live], pools.bits)"), "pools"),
        f"{_SHARING}::test_a_shared_row_that_retires_during_a_round_takes_no_id_along",
    ),
    one(
        "a run with one retired archive removed",
        "oncegate.index.lsm.tier::ColdTier.idle",
        replace("any", "all"),
        "tests/index/lsm/test_eviction.py::test_a_run_is_idle_only_once_all_its_archives_have_retired",
    ),
    one(
        "room is kept for a client that has disconnected",
        "oncegate.transports.incoming::admit",
        replace("BaseException", "Exception"),
        f"{_INCOMING}::test_a_client_that_disconnects_while_its_body_is_read_returns_its_room",
    ),
    one(
        "a body that is here already takes no room",
        "oncegate.transports.incoming::admit",
        delete("room.arrived(len(body))"),
        f"{_INCOMING}::test_a_body_that_is_here_already_is_reserved_as_one_that_is_read",
    ),
    one(
        "room reserved before the namespace is known",
        "oncegate.transports.incoming::admit",
        insert(
            "gateway.admission.enter(size_bytes)",
            after="if size_bytes > head.bytes_max:\n    ...",
        ),
        f"{_INCOMING}::test_of_several_refusals_the_first_of_the_order_is_returned_and_nothing_stays_reserved",
    ),
    one(
        "a body over the limit asks for its namespace first",
        "oncegate.transports.incoming::admit",
        delete("if size_bytes > head.bytes_max:\n    ..."),
        f"{_INCOMING}::test_of_several_refusals_the_first_of_the_order_is_returned_and_nothing_stays_reserved",
    ),
    one(
        "a name's length counted in characters",
        "oncegate.engine.names::check_length",
        replace("name.encode('utf-8', 'replace')", "name"),
        f"{_NAMES}::test_a_name_of_one_byte_too_many_is_too_large_and_the_longest_passes",
    ),
    one(
        "an empty name taken",
        "oncegate.engine.names::check_name",
        replace("not name", "name is None"),
        f"{_NAMES}::test_an_empty_name_is_a_bad_request",
    ),
    one(
        "a second cancelling is one too many",
        "oncegate.engine.recovery.replay::replay",
        replace_statement(
            "await asyncio.wait(...)", "try:\n    await asyncio.wait([filling])\nfinally:\n    await batches.aclose()"
        ),
        f"{_REPLAY}::test_a_replay_that_is_cancelled_twice_is_cancelled_and_closes_the_ledger",
    ),
    one(
        "a ledger that leaves one thing out is checked in nothing",
        "oncegate.testing.ledger_checks::why_skipped",
        replace(
            "f\"the ledger leaves out {', '.join(missing)}\" if missing else None",
            "f\"the ledger leaves out {', '.join(missing)}\" if leaving_out else None",
        ),
        "tests/testing/test_abilities.py::test_a_ledger_without_an_ability_passes_the_rest_and_gets_a_list_of_what_was_skipped",
    ),
    one(
        "an ability that may be left out in silence",
        "oncegate.ports.ledger::LEAVING_OUT",
        replace("Ability.NAMESPACES", "Ability.OUTPUTS"),
        "tests/testing/test_abilities.py::test_each_ability_that_may_be_left_out_has_its_consequence_described",
    ),
)
