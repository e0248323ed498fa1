"""Planted bugs of eviction from memory: which ids may leave, in which order, and what replaces them."""

from tests.mutants.edits import delete, replace, replace_statement, swap
from tests.mutants.mutant import Mutant, one

_WALKS = "tests/index/lsm/test_eviction.py"
_ENGINE = "tests/engine/maintenance/test_eviction.py"
_DROPPING = "tests/index/table/test_delete.py"
_TIMES = "tests/engine/maintenance/test_eviction_times.py"

SEALING: tuple[Mutant, ...] = (
    Mutant(
        "a filter that is not sound",
        (
            (
                "oncegate.index.lsm.tier::ColdRun.candidates",
                replace("self.filter is None or not self.filter.sound", "self.filter is None"),
            ),
            ("oncegate.index.lsm.bloom_blocked::BlockedFilter.might_hold", replace("not self.sound", "len(keys) < 0")),
        ),
        (f"{_WALKS}::test_a_filter_that_is_not_sound_is_passed_over",),
    ),
    one(
        "a slot moves up past the beginning of its chain",
        "oncegate.index.table.delete::_close",
        replace("from_begin < from_hole", "from_begin < 0"),
        f"{_DROPPING}::test_dropped_ids_are_gone_and_every_other_id_is_found_with_its_row_and_digest",
    ),
    one(
        "a digest stays where its slot was",
        "oncegate.index.table.delete::_close",
        delete("digests[base + hole] = digests[base + at]"),
        f"{_DROPPING}::test_dropped_ids_are_gone_and_every_other_id_is_found_with_its_row_and_digest",
    ),
    one(
        "rounds leave no time for a collection",
        "oncegate.engine.maintenance.eviction::Eviction._work",
        delete("self.between_rounds()"),
        f"{_TIMES}::test_a_collection_that_is_due_has_its_turn_between_two_rounds",
    ),
    one(
        "too many ids wait for the scheduler",
        "oncegate.engine.recovery.owner::Owner._keep_up",
        delete("shard.eviction.step()"),
        f"{_TIMES}::test_ids_leave_memory_within_half_a_second_of_there_being_too_many",
    ),
    one(
        "compacted in the middle of a round",
        "oncegate.engine.maintenance.scheduler::Scheduler.compact",
        delete("if self._eviction.busy:\n    ..."),
        f"{_TIMES}::test_nothing_is_collected_in_the_middle_of_a_round",
    ),
    Mutant(
        "a filter of another run",
        (
            (
                "oncegate.engine.maintenance.run_files::RunFiles._filter",
                replace("data[:SALT_BYTES] == bytes.fromhex(salt)", "data"),
            ),
            (
                "oncegate.engine.maintenance.run_files::RunFiles._filter",
                replace(
                    (
                        "saved is None or type(saved) is not type(empty) or (not saved.sound) or "
                        "(saved.ids != run.run.size)"
                    ),
                    "saved is None or type(saved) is not type(empty) or (not saved.sound)",
                ),
            ),
        ),
        (f"{_ENGINE}::test_a_filter_of_another_run_is_not_believed",),
    ),
    one(
        "an unlisted run is left behind",
        "oncegate.engine.maintenance.run_files::RunFiles.write",
        delete("with suppress(Exception):\n    ..."),
        f"{_ENGINE}::test_a_run_whose_filter_found_no_room_is_no_file_that_is_left",
    ),
    one(
        "a rate of others' ids",
        "oncegate.index.lsm.tier::LookupStats.ended",
        replace("int(np.count_nonzero(~is_hit[indices]))", "len(indices)"),
        f"{_ENGINE}::test_an_id_that_one_run_holds_counts_as_none_that_others_were_asked_for_in_vain",
    ),
    one(
        "the run installed after the drop",
        "oncegate.engine.maintenance.eviction::Eviction._round",
        swap("self._claims.cold.replace(...)", "await self._drop(...)"),
        f"{_ENGINE}::test_at_each_step_of_their_way_out_ids_are_known",
    ),
    one(
        "an archive retires with its oldest",
        "oncegate.index.lsm.archives::ArchiveIndex._retire",
        replace("archive.newest_wall_ms", "archive.oldest_wall_ms"),
        f"{_WALKS}::test_an_archive_goes_with_the_newest_of_its_ids",
    ),
    one(
        "what retires apart is sealed claim_batch",
        "oncegate.index.claims.evict::_parts",
        replace(
            "np.searchsorted(np.array(bounds, np.int64), rows.wall_ms[chosen], side='right')",
            "0 * np.searchsorted(np.array(bounds, np.int64), rows.wall_ms[chosen], side='right')",
        ),
        f"{_ENGINE}::test_sealing_forgets_nothing_early_and_keeps_nothing_longer",
    ),
    Mutant(
        "a restart without dropping",
        (
            (
                "oncegate.engine.recovery.cold_tier::Dropping.__call__",
                replace("not isinstance(entry, Evicted)", "isinstance(entry, Evicted)"),
            ),
            (
                "oncegate.engine.recovery.cold_tier::open_runs",
                replace("archive.dropped < archive.ids", "not archive.ids"),
            ),
        ),
        (f"{_ENGINE}::test_a_restart_drops_what_was_sealed_and_answers_alike",),
    ),
    one(
        "a merge drops a live archive",
        "oncegate.index.lsm.archives::ArchiveIndex.keep_mask",
        replace("list(self.by_number)", "list(self.by_number)[1:]"),
        f"{_ENGINE}::test_there_are_four_runs_at_most_and_no_other_files",
    ),
    one(
        "retired in the middle of a round",
        "oncegate.engine.maintenance.scheduler::Scheduler.retire",
        delete("if self._eviction.busy:\n    ..."),
        f"{_ENGINE}::test_a_crash_between_archive_and_run_loses_nothing_and_retires_nothing",
    ),
    one(
        "sealed while its claim can be named",
        "oncegate.index.claims.evict::pick",
        replace("(holders.remembered[listed] == 0) & (holders.pins[listed] == 0)", "holders.pins[listed] == 0"),
        f"{_ENGINE}::test_what_cannot_leave_memory_stays",
    ),
    one(
        "payload digests left behind",
        "oncegate.index.claims.evict::pick",
        replace("(rows.beside[listed] & PAYLOADS == 0) & (rows.scoped[listed] == 0)", "rows.scoped[listed] == 0"),
        f"{_WALKS}::test_ids_with_more_than_their_completion_to_answer_stay_in_the_table",
    ),
    one(
        "an undo brings back how many left",
        "oncegate.index.claims.apply::undo",
        replace("ids_ever - store.evicted_ids", "ids_ever"),
        f"{_WALKS}::test_no_answer_reveals_whether_old_ids_were_sealed",
    ),
    one(
        "a damaged run is taken for an empty one",
        "oncegate.index.lsm.tier::ColdTier.find",
        replace_statement("raise", "continue"),
        f"{_ENGINE}::test_a_run_damaged_while_it_serves_is_never_answered_from_and_made_again",
    ),
    one(
        "runs of another ledger",
        "oncegate.engine.maintenance.run_files::RunFiles._open",
        replace("run.meta.get('ledger') == self._ledger and believed", "True"),
        f"{_ENGINE}::test_runs_of_another_ledger_are_not_looked_into",
    ),
    one(
        "trimmed with the first that retires",
        "oncegate.index.lsm.archives::ArchiveIndex.first_kept_offset",
        replace("next(offsets, self.high_offset)", "self.high_offset if self.archives else next(offsets)"),
        f"{_ENGINE}::test_ids_that_have_not_retired_can_be_rebuilt_from_the_ledger",
    ),
    one(
        "the owner of a sealed id",
        "oncegate.index.claims.evict::_standing_row",
        replace("NOBODY if owner == NO_CLAIM else owner", "NOBODY"),
        f"{_WALKS}::test_an_owner_is_granted_again_what_it_took_with_the_takeover_that_it_was",
    ),
    one(
        "a row that represents sealed ids retires",
        "oncegate.index.claims.evict::NEVER_MS",
        replace("(1 << 63) - 1", "0"),
        f"{_WALKS}::test_no_answer_reveals_whether_old_ids_were_sealed",
    ),
)
