"""Planted bugs of what meets: two events in one append, an arrival during an await, equality at a cut."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import CLIENT, ENGINE, INDEX, LOG

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
        f"{ENGINE}/usecases/batches.py",
        "            if chunk.key_partitions not in (0, partitions):\n",
        "            if False:\n",
        "tests/engine/usecases/test_partitioning.py",
    ),
    one(
        "the layout of a stage forgotten by the index",
        f"{INDEX}/batches.py",
        "            entry.key_partitions,\n",
        "            0,\n",
        "tests/engine/usecases/test_partitioning.py",
    ),
    one(
        "an older name commits again",
        f"{INDEX}/committed_names.py",
        "        older = self.older.get(name)\n",
        "        older = None\n",
        f"{_COMMITS}::test_an_older_name_never_commits_again_and_its_replay_is_told_by_its_input",
    ),
    one(
        "an older name is told by the first bytes of its nonce",
        f"{INDEX}/older_names.py",
        "    return hashlib.sha256(nonce).digest()[:_NONCE_BYTES]\n",
        "    return nonce[:_NONCE_BYTES]\n",
        f"{_COMMITS}::test_an_older_name_never_commits_again_and_its_replay_is_told_by_its_input",
    ),
    one(
        "who asks for an older name is forgotten at once",
        f"{INDEX}/committed_names.py",
        "            return False, self._keep(name, replace(asked, kept_position=position))\n",
        "            return False, _nothing\n",
        "tests/index/test_committed_names.py::"
        "test_an_older_name_that_is_asked_for_is_one_of_the_last_again_and_who_asked_is_known",
    ),
    one(
        "an older name that is taken back stays",
        f"{INDEX}/committed_names.py",
        "            if is_new:\n                self.older.remove(gone)\n",
        "",
        "tests/index/test_batches_undo.py::test_a_commit_that_made_the_oldest_name_forgotten_can_be_taken_back",
    ),
    one(
        "names are remembered whole without a bound",
        f"{INDEX}/committed_names.py",
        "        elif len(self._order) > NAMES_REMEMBERED_IN_ALL:\n",
        "        elif False:\n",
        "tests/index/test_committed_names.py::test_names_remembered_whole_are_bounded_in_all",
    ),
    one(
        "names are encoded in one step",
        f"{INDEX}/snapshot/batches.py",
        '        ("older_names", older, _BLOCKS_PER_PIECE),\n',
        '        ("older_names", older, 1 << 40),\n',
        f"{_NAMES_AND_RANGES}::test_names_stages_and_ranges_are_many_small_steps_that_make_the_same_again",
    ),
    one(
        "ranges of a topic are encoded in one step",
        f"{INDEX}/snapshot/topics.py",
        "_BLOCKS_PER_PIECE, _PARTITIONS_PER_PIECE, _TOPICS_PER_PIECE = 42,",
        "_BLOCKS_PER_PIECE, _PARTITIONS_PER_PIECE, _TOPICS_PER_PIECE = 1 << 40,",
        f"{_NAMES_AND_RANGES}::test_names_stages_and_ranges_are_many_small_steps_that_make_the_same_again",
    ),
    one(
        "a snapshot of names is of a later moment",
        f"{INDEX}/committed_names.py",
        "        self.older = OlderNames()\n",
        "        self.older = OlderNames()\n        self.older.frozen = lambda: self.older._blocks\n",
        f"{_NAMES_AND_RANGES}::test_a_snapshot_of_names_and_ranges_is_of_the_moment_at_which_it_began",
    ),
    one(
        "asks take all the memory there is",
        f"{INDEX}/committed_names.py",
        "        while self.asks_bytes > ASKS_BYTES_IN_ALL and self._several:\n",
        "        while False:\n",
        "tests/index/test_committed_names.py::test_asks_of_all_names_take_a_bounded_memory_and_the_newest_of_each_stays",
    ),
    one(
        "asks that were given up for one that is taken back stay gone",
        f"{INDEX}/committed_names.py",
        "            undo_less()\n            self._ask(name, record)\n",
        "            self._ask(name, record)\n",
        "tests/index/test_committed_names.py::test_asks_that_were_given_up_come_back_with_what_they_were_given_up_for",
    ),
    one(
        "older names out of order within a block",
        f"{INDEX}/older_names.py",
        "    return bool(is_less.all())\n",
        "    return bool(is_less[:1].all())\n",
        "tests/index/test_committed_names.py::test_records_that_are_damaged_or_out_of_order_are_refused",
    ),
    one(
        "a snapshot of topics is of a later moment",
        f"{INDEX}/topics.py",
        "        topic = self._changing(name)\n",
        "        topic = self._topics[name]\n",
        f"{_NAMES_AND_RANGES}::test_a_snapshot_of_names_and_ranges_is_of_the_moment_at_which_it_began",
    ),
    one(
        "a snapshot of the catalog is of a later moment",
        "service/oncegate/ledgers/catalog/catalog.py",
        "        if self._saved is not None:\n            self._saved.changing((topic, partition))\n",
        "",
        "tests/faults/ledger/test_catalog.py::test_pieces_say_what_was_there_when_they_were_asked_for",
    ),
    one(
        "a snapshot of producers is of a later moment",
        f"{INDEX}/producers/apply.py",
        "    store.changing(producer)\n    call = ",
        "    call = ",
        f"{_PRODUCERS}::test_a_snapshot_of_producers_is_of_the_moment_at_which_it_began",
    ),
    one(
        "producers are encoded in one step",
        f"{INDEX}/snapshot/producers.py",
        "_PER_PIECE, _PIECE_BYTES = 200, 1 << 20\n",
        "_PER_PIECE, _PIECE_BYTES = 1 << 40, 1 << 60\n",
        f"{_PRODUCERS}::test_producers_are_saved_in_small_steps",
    ),
    one(
        "rows of a batch are saved as of a later moment",
        f"{INDEX}/claims/batch_scopes.py",
        "            part = made_by[at : min(count, at + _ROWS_PER_PART)]\n",
        "            part = made_by[at : at + _ROWS_PER_PART]\n",
        "tests/engine/usecases/test_batch_scopes.py::test_batches_are_saved_as_they_were_when_their_snapshot_began",
    ),
    one(
        "a snapshot that lacks names is believed",
        f"{INDEX}/snapshot/batches.py",
        "        if rest.pieces != self._taken:\n",
        "        if False:\n",
        f"{_NAMES_AND_RANGES}::test_a_snapshot_without_one_of_its_pieces_is_refused",
    ),
    one(
        "rows without keys are bound to a layout",
        f"{ENGINE}/usecases/batches.py",
        "            key_partitions = 0 if request.keys is None else partitions\n",
        "            key_partitions = partitions\n",
        "tests/engine/usecases/test_partitioning.py::test_what_was_staged_without_keys_may_lie_anywhere",
    ),
    one(
        "a lane's write on a lease that is half spent",
        f"{CLIENT}/spark/writers/sequenced.py",
        "            if not self._holder.fresh(claimed):\n",
        "            if False:\n",
        "tests/client/spark/test_sequenced.py::test_no_write_of_a_lane_starts_when_half_its_lease_is_spent",
    ),
    one(
        "a file let go of before its append is over",
        f"{LOG}/ledger.py",
        "            released += self._catalog.apply(change)\n        gone = self._range_counts.release(released)\n"
        "        if gone:\n            self._writing.submit(self._writer.remove, gone)\n",
        "            released = self._catalog.apply(change)\n            gone = self._range_counts.release(released)\n"
        "            if gone:\n                self._writing.submit(self._writer.remove, gone)\n",
        "tests/faults/ledger/test_outputs.py::test_a_file_whose_last_range_goes_with_an_append_that_adds_one_stays",
    ),
    one(
        "the mark at a collection forgotten",
        f"{ENGINE}/commit/marks.py",
        "        at = bisect_left(self._positions, position)\n        del",
        "        at = bisect_left(self._positions, position + 1)\n        del",
        "tests/engine/commit/test_marks.py::test_a_mark_just_at_a_collection_is_kept_and_compared",
    ),
    one(
        "any mark at a collection passes",
        f"{ENGINE}/commit/marks.py",
        "        if mark.position < self._compacted:\n",
        "        if mark.position <= self._compacted:\n",
        "tests/engine/commit/test_marks.py::test_a_mark_just_at_a_collection_is_kept_and_compared",
    ),
    Mutant(
        "offsets read after the wait",
        (
            (
                f"{ENGINE}/usecases/topics.py",
                "        view = TopicView(\n",
                "        await self._journal.group_commit.durable(topic.position)\n        view = TopicView(\n",
            ),
            (
                f"{ENGINE}/usecases/topics.py",
                "        await self._journal.group_commit.durable(topic.position)\n        return view\n",
                "        return view\n",
            ),
        ),
        ("tests/engine/usecases/test_topics.py::test_no_offset_is_told_of_what_came_while_it_waited",),
    ),
    one(
        "one note for all writes of a batch",
        f"{CLIENT}/spark/acks.py",
        "hashlib.sha256(text.encode()).hexdigest()",
        "hashlib.sha256(made.driver.encode()).hexdigest()",
        "tests/client/spark/test_acks.py::test_two_writes_of_one_batch_are_both_acked",
    ),
    one(
        "what the witness saw during a sync forgotten",
        "service/oncegate/ledgers/witness.py",
        "                self._dirty = False\n                with self._named():\n                    self._disk.sync(self._fd)\n",
        "                with self._named():\n                    self._disk.sync(self._fd)\n                self._dirty = False\n",
        "tests/faults/ledger/test_witness.py::test_what_is_seen_while_a_sync_runs_is_synced_by_the_next",
    ),
    one(
        "a row that leaves memory is shared",
        f"{INDEX}/claims/row_sharing.py",
        "        is_free = (holders.remembered[done] == 0) & (holders.pins[done] == 0) & ~rows.claim[done].any(axis=1)\n",
        "        is_free = (holders.remembered[done] == 0) & ~rows.claim[done].any(axis=1)\n",
        f"{_SHARING}::test_a_row_that_is_leaving_memory_takes_in_no_more_ids",
    ),
    one(
        "a shared row that retired meanwhile",
        f"{INDEX}/claims/row_sharing.py",
        "        return pools if live.all() else SharedRows(pools.buckets[live], pools.rows[live], pools.bits)\n",
        "        return pools\n",
        f"{_SHARING}::test_a_shared_row_that_retires_during_a_round_takes_no_id_along",
    ),
    one(
        "a run with one retired archive removed",
        f"{INDEX}/lsm/tier.py",
        "if not any(number in self.archives.by_number for number in run.archives)]",
        "if not all(number in self.archives.by_number for number in run.archives)]",
        "tests/index/lsm/test_eviction.py::test_a_run_is_idle_only_once_all_its_archives_have_retired",
    ),
    one(
        "room kept for whoever went away",
        "service/oncegate/transports/incoming.py",
        "    except BaseException:\n        deadline.decided()\n",
        "    except Exception:\n        deadline.decided()\n",
        f"{_INCOMING}::test_whoever_goes_away_while_its_body_is_read_gives_its_room_back",
    ),
    one(
        "room reserved before the namespace is known",
        "service/oncegate/transports/incoming.py",
        "    shard = claims_at(gateway, namespace := incoming.namespace(), incoming.marks, caller if claims else None)\n"
        "    set_current_tenant(gateway.tenants.of(incoming.whose()))\n",
        "    gateway.admission.enter(size_bytes)\n    shard = "
        "claims_at(gateway, namespace := incoming.namespace(), incoming.marks, caller if claims else None)\n"
        "    set_current_tenant(gateway.tenants.of(incoming.whose()))\n",
        f"{_INCOMING}::test_of_several_refusals_the_first_of_the_order_is_told_and_nothing_stays_reserved",
    ),
    one(
        "a body over the limit asks for its namespace first",
        "service/oncegate/transports/incoming.py",
        "    if size_bytes > (bytes_max := incoming.bytes_max(gateway.limits)):\n        raise TooLarge("
        'f"a body of {size_bytes} bytes; at most {bytes_max} are read of this kind")\n    shard =',
        "    shard =",
        f"{_INCOMING}::test_of_several_refusals_the_first_of_the_order_is_told_and_nothing_stays_reserved",
    ),
    one(
        "a name's length counted in characters",
        f"{ENGINE}/names.py",
        'len(name.encode("utf-8", "replace"))',
        "len(name)",
        f"{_NAMES}::test_a_name_of_one_byte_too_many_is_too_large_and_the_longest_passes",
    ),
    one(
        "an empty name taken",
        f"{ENGINE}/names.py",
        "    if not name:\n",
        "    if name is None:\n",
        f"{_NAMES}::test_an_empty_name_is_a_bad_request",
    ),
    one(
        "a second cancelling is one too many",
        f"{ENGINE}/recovery/replay.py",
        "        filling.cancel()\n        await asyncio.wait([filling])\n",
        "        filling.cancel()\n        try:\n            await asyncio.wait([filling])\n        finally:\n"
        "            await batches.aclose()\n",
        f"{_REPLAY}::test_a_replay_that_is_cancelled_twice_is_cancelled_and_closes_the_ledger",
    ),
    one(
        "a ledger that leaves one thing out is checked in nothing",
        "service/oncegate/testing/ledger_checks.py",
        '(missing)}" if missing else None\n',
        '(missing)}" if leaving_out else None\n',
        "tests/testing/test_abilities.py::test_a_ledger_without_it_passes_the_rest_and_is_told_what_was_skipped",
    ),
    one(
        "an ability that may be left out in silence",
        "service/oncegate/ports/abilities.py",
        "    Ability.NAMESPACES: (\n",
        "    Ability.OUTPUTS: (\n",
        "tests/testing/test_abilities.py::test_each_ability_that_may_be_left_out_says_what_becomes_of_it",
    ),
)
