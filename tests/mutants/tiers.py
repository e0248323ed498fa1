"""Planted bugs of the tiers for evicted ids: sorted runs, their filters and their files."""

from tests.mutants.edits import delete, replace, replace_statement
from tests.mutants.mutant import Mutant, one

_RUNS = "tests/index/lsm/test_run.py"
_FILTERS = "tests/index/lsm/test_bloom.py"
_FILES = "tests/faults/ledger/test_runs.py"
_LEDGERS = "tests/testing/test_ledgers.py"

TIERS: tuple[Mutant, ...] = (
    one(
        "blocks believed unseen",
        "oncegate.index.lsm.run_kernels::find",
        replace("seen[block] == 0", "seen[block] == 2"),
        f"{_RUNS}::test_a_damaged_block_is_met_only_where_it_is_touched",
        f"{_RUNS}::test_two_blocks_that_changed_places_are_refused",
    ),
    one(
        "of four blocks the first is checked",
        "oncegate.index.lsm.run_kernels::_check_four",
        replace(
            "not _is_whole(blocks, four[i], crcs[i], fences, salt)",
            "i == 0 and (not _is_whole(blocks, four[i], crcs[i], fences, salt))",
        ),
        f"{_RUNS}::test_a_damaged_block_is_met_among_many_that_are_touched_at_once",
    ),
    one(
        "a block of another run",
        "oncegate.index.lsm.run_kernels::_is_whole",
        replace(
            "words[_NUMBER] == stamp and words[0] == fences[block] and (words[_CRC] == crc)",
            "words[_NUMBER] & _LOW == stamp & _LOW and words[_CRC] == crc",
        ),
        f"{_RUNS}::test_damage_anywhere_is_refused",
    ),
    one(
        "one block for a tag",
        "oncegate.index.lsm.run_kernels::find",
        replace(
            "fences[block] == tag and words[1] & _LOW > home",
            "fences[block] == tag and words[1] & _LOW > home and (block < 0)",
        ),
        f"{_RUNS}::test_inserted_ids_are_found_and_no_others",
    ),
    one(
        "the newest archive wins",
        "oncegate.index.lsm.run_kernels::_rest",
        replace("word >> _HALF", "~word >> _HALF"),
        f"{_RUNS}::test_a_merge_is_that_of_dicts",
    ),
    one(
        "a merge keeps what has gone",
        "oncegate.index.lsm.run_kernels::settle",
        replace("keep[archive] != 0", "archive >= 0"),
        f"{_RUNS}::test_a_merge_is_that_of_dicts",
    ),
    one(
        "a dropped record drops its duplicate too",
        "oncegate.index.lsm.run_kernels::settle",
        replace_statement(
            "if keep[archive] != 0 and (first or tag != last_tag or home != last_home):\n    ...",
            (
                "if keep[archive] != 0 and (first or tag != last_tag or home != last_home):\n"
                "    count += 1\n"
                "last_tag, last_home, first = (tag, home, False)"
            ),
        ),
        f"{_RUNS}::test_a_merge_is_that_of_dicts",
    ),
    one(
        "fences believed",
        "oncegate.index.lsm.run::Run.__init__",
        replace("zlib.crc32(tags) == fences_crc", "fences_crc >= 0"),
        f"{_RUNS}::test_damage_anywhere_is_refused",
    ),
    one(
        "a full filter denies",
        "oncegate.index.lsm.bloom_blocked::BlockedFilter.sound",
        replace("self.ids <= self.capacity", "True"),
        f"{_FILTERS}::test_an_overfull_filter_answers_maybe_to_everything",
    ),
    one(
        "a full pybloom denies",
        "oncegate.index.lsm.bloom_pybloom::PybloomFilter.add",
        delete("self.sound = False"),
        f"{_FILTERS}::test_an_overfull_filter_answers_maybe_to_everything",
    ),
    Mutant(
        "soundness lost in saving",
        (
            ("oncegate.index.lsm.bloom_pybloom::PybloomFilter.restore", replace("(self.ids, self.sound)", "self.ids")),
            (
                "oncegate.index.lsm.bloom_pybloom::PybloomFilter.restore",
                replace("(head['ids'], head['sound'])", "head['ids']"),
            ),
        ),
        (f"{_FILTERS}::test_an_overfull_filter_answers_maybe_to_everything",),
    ),
    one(
        "words filled evenly",
        "oncegate.index.lsm.bloom_blocked::rate",
        replace("poisson @ _rates(hashes)", "(1 - (1 - 1 / WORD_BITS) ** (hashes * load)) ** hashes"),
        f"{_FILTERS}::test_the_rate_is_within_a_tenth_of_the_design",
    ),
    one(
        "filters of another library",
        "oncegate.index.lsm.bloom_pybloom::PybloomFilter.decode",
        replace("head['function'] != FUNCTION or head['libraries'] != _libraries()", "head['function'] != FUNCTION"),
        f"{_FILTERS}::test_a_filter_of_another_version_of_pybloom_live_or_what_it_hashes_with_is_not_loaded",
    ),
    one(
        "filters of another function",
        "oncegate.index.lsm.bloom_blocked::BlockedFilter.decode",
        replace("head['function'] != FUNCTION", "head['function'] == ''"),
        f"{_FILTERS}::test_a_filter_of_another_format_function_or_library_is_not_loaded",
    ),
    one(
        "damaged filters",
        "oncegate.index.lsm.bloom_format::unpacked",
        replace("_CRC.unpack(view[end:])[0] != zlib.crc32(view[:end])", "len(view[end:]) != 4"),
        f"{_FILTERS}::test_a_saved_filter_that_was_damaged_is_not_loaded",
    ),
    one(
        "a run has its name before its bytes",
        "oncegate.runs.local::LocalRuns._write",
        delete("self._disk.sync(fd)", nth=2),
        f"{_FILES}::test_in_every_crash_state_a_run_is_whole_or_not_there",
    ),
    one(
        "a run's name not synced",
        "oncegate.runs.local::LocalRuns.write",
        delete("self._disk.sync_folder(...)"),
        f"{_FILES}::test_in_every_crash_state_a_run_is_whole_or_not_there",
        f"{_LEDGERS}::test_the_log_keeps_its_promises_when_the_power_fails",
    ),
    one(
        "a late thread writes its run",
        "oncegate.runs.local::LocalRuns.write",
        delete("self._own()", nth=2),
        f"{_LEDGERS}::test_the_ledger_keeps_its_promises",
    ),
    one(
        "runs cut short stay",
        "oncegate.runs.local::LocalRunFolders.open",
        delete("await finished(asyncio.to_thread(runs.remove_unfinished))"),
        f"{_FILES}::test_files_that_are_no_runs_are_not_listed",
    ),
    one(
        "an accepted copy keeps runs of what it lost",
        "oncegate.ledgers.log.admin.init::_accept",
        delete("empty_folder(...)"),
        f"{_FILES}::test_an_older_copy_that_is_accepted_has_no_runs_of_what_it_lost",
    ),
)
