"""Planted bugs of the way out of memory: what may leave it, in which order, and what stands for it then."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import ENGINE, INDEX

_WALKS = "tests/index/lsm/test_eviction.py"
_ENGINE = "tests/engine/maintenance/test_eviction.py"
_DROPPING = "tests/index/table/test_delete.py"
_TIMES = "tests/engine/maintenance/test_eviction_times.py"

SEALING: tuple[Mutant, ...] = (
    Mutant(
        "a filter that is not sound",
        (
            (f"{INDEX}/lsm/tier.py", "self.filter is None or not self.filter.sound", "self.filter is None"),
            (f"{INDEX}/lsm/bloom_blocked.py", "        if not self.sound:\n", "        if len(keys) < 0:\n"),
        ),
        (f"{_WALKS}::test_a_filter_that_is_not_sound_is_passed_over",),
    ),
    one(
        "a slot moves up past the beginning of its chain",
        f"{INDEX}/table/delete.py",
        "        if from_begin < from_hole:\n",
        "        if from_begin < 0:\n",
        f"{_DROPPING}::test_what_is_dropped_is_gone_and_every_other_id_is_found_with_its_row_and_digest",
    ),
    one(
        "a digest stays where its slot was",
        f"{INDEX}/table/delete.py",
        "            digests[base + hole] = digests[base + at]\n",
        "            pass\n",
        f"{_DROPPING}::test_what_is_dropped_is_gone_and_every_other_id_is_found_with_its_row_and_digest",
    ),
    one(
        "rounds leave no time for a collection",
        f"{ENGINE}/maintenance/eviction.py",
        "                    self.between_rounds()\n",
        "                    pass\n",
        f"{_TIMES}::test_a_collection_that_is_due_has_its_turn_between_two_rounds",
    ),
    one(
        "too many ids wait for the scheduler",
        f"{ENGINE}/recovery/owner.py",
        "        shard.eviction.step()\n        if",
        "        if",
        f"{_TIMES}::test_ids_leave_memory_within_half_a_second_of_there_being_too_many",
    ),
    one(
        "compacted in the middle of a round",
        f"{ENGINE}/maintenance/scheduler.py",
        "        if self._eviction.busy:\n            return\n        if journal.size_bytes",
        "        if journal.size_bytes",
        f"{_TIMES}::test_nothing_is_collected_in_the_middle_of_a_round",
    ),
    Mutant(
        "a filter of another run",
        (
            (
                f"{ENGINE}/maintenance/run_files.py",
                "if data[:SALT_BYTES] == bytes.fromhex(salt) else None",
                "if data else None",
            ),
            (f"{ENGINE}/maintenance/run_files.py", " or saved.ids != run.run.size:", ":"),
        ),
        (f"{_ENGINE}::test_a_filter_of_another_run_is_not_believed",),
    ),
    one(
        "a run is left that nobody knows of",
        f"{ENGINE}/maintenance/run_files.py",
        "            with suppress(Exception):\n                self._remove(name)\n            raise\n",
        "            raise\n",
        f"{_ENGINE}::test_a_run_whose_filter_found_no_room_is_no_file_that_is_left",
    ),
    one(
        "a rate of others' ids",
        f"{INDEX}/lsm/tier.py",
        "int(np.count_nonzero(~is_hit[indices])) for indices in misses",
        "len(indices) for indices in misses",
        f"{_ENGINE}::test_an_id_that_one_run_holds_counts_as_none_that_others_were_asked_for_in_vain",
    ),
    one(
        "the run installed after the drop",
        f"{ENGINE}/maintenance/eviction.py",
        "            self._claims.cold.replace([], [run])\n            await self._drop(made)\n",
        "            await self._drop(made)\n            self._claims.cold.replace([], [run])\n",
        f"{_ENGINE}::test_at_each_step_of_their_way_out_ids_are_known",
    ),
    one(
        "an archive retires with its oldest",
        f"{INDEX}/lsm/archives.py",
        "if archive.newest_wall_ms < entry.before_wall_ms]\n        for archive in due:",
        "if archive.oldest_wall_ms < entry.before_wall_ms]\n        for archive in due:",
        f"{_WALKS}::test_an_archive_goes_with_the_newest_of_its_ids",
    ),
    one(
        "what retires apart is sealed claim_batch",
        f"{INDEX}/claims/evict.py",
        "    of[:, 3] = np.searchsorted(",
        "    of[:, 3] = 0 * np.searchsorted(",
        f"{_ENGINE}::test_sealing_forgets_nothing_early_and_keeps_nothing_longer",
    ),
    Mutant(
        "a restart without dropping",
        (
            (f"{ENGINE}/recovery/cold_tier.py", "if not isinstance(entry, Evicted):", "if isinstance(entry, Evicted):"),
            (
                f"{ENGINE}/recovery/cold_tier.py",
                "        if archive.dropped < archive.ids:\n",
                "        if not archive.ids:\n",
            ),
        ),
        (f"{_ENGINE}::test_a_restart_drops_what_was_sealed_and_answers_alike",),
    ),
    one(
        "a merge drops a live archive",
        f"{INDEX}/lsm/archives.py",
        "keep[list(self.by_number)] = 1",
        "keep[list(self.by_number)[1:]] = 1",
        f"{_ENGINE}::test_there_are_four_runs_at_most_and_no_other_files",
    ),
    one(
        "retired in the middle of a round",
        f"{ENGINE}/maintenance/scheduler.py",
        "        if self._eviction.busy:\n            return\n        if not horizon_ms",
        "        if not horizon_ms",
        f"{_ENGINE}::test_a_crash_between_archive_and_run_loses_nothing_and_retires_nothing",
    ),
    one(
        "sealed while its claim can be named",
        f"{INDEX}/claims/evict.py",
        "(holders.remembered[listed] == 0) & ",
        "",
        f"{_ENGINE}::test_what_cannot_leave_memory_stays",
    ),
    one(
        "payload digests left behind",
        f"{INDEX}/claims/evict.py",
        "(rows.beside[listed] & PAYLOADS == 0) & ",
        "",
        f"{_WALKS}::test_what_is_still_asked_for_more_than_that_it_is_done_stays_in_the_table",
    ),
    one(
        "an undo brings back how many left",
        f"{INDEX}/claims/apply.py",
        "store.ids = ids_ever - store.evicted_ids",
        "store.ids = ids_ever",
        f"{_WALKS}::test_no_answer_tells_whether_old_ids_were_sealed",
    ),
    one(
        "a damaged run is taken for an empty one",
        f"{INDEX}/lsm/tier.py",
        "                self.when_damaged()\n                raise\n",
        "                self.when_damaged()\n                continue\n",
        f"{_ENGINE}::test_a_run_damaged_while_it_serves_is_never_answered_from_and_made_again",
    ),
    one(
        "runs of another ledger",
        f"{ENGINE}/maintenance/run_files.py",
        'is_own = run.meta.get("ledger") == self._ledger and believed',
        "is_own = True",
        f"{_ENGINE}::test_runs_of_another_ledger_are_not_looked_into",
    ),
    one(
        "trimmed with the first that retires",
        f"{INDEX}/lsm/archives.py",
        "        return next(offsets, self.high_offset)\n",
        "        return self.high_offset if self.archives else next(offsets)\n",
        f"{_ENGINE}::test_what_has_not_retired_can_be_made_again_from_the_ledger",
    ),
    one(
        "the owner of a sealed id",
        f"{INDEX}/claims/evict.py",
        "NOBODY if owner == NO_CLAIM else owner, 0,",
        "NOBODY, 0,",
        f"{_WALKS}::test_an_owner_is_granted_again_what_it_took_with_the_takeover_that_it_was",
    ),
    one(
        "a row that stands for sealed ids retires",
        f"{INDEX}/claims/evict.py",
        "NEVER_MS = (1 << 63) - 1",
        "NEVER_MS = 0",
        f"{_WALKS}::test_no_answer_tells_whether_old_ids_were_sealed",
    ),
)
