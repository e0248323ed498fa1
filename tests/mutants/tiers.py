"""Planted bugs of what ids leave memory for: sorted runs, the filters before them, the files that they lie in."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import INDEX, LOG

RUNS = "service/oncegate/runs"
_RUNS = "tests/index/lsm/test_run.py"
_FILTERS = "tests/index/lsm/test_bloom.py"
_FILES = "tests/faults/ledger/test_runs.py"
_LEDGERS = "tests/testing/test_ledgers.py"

TIERS: tuple[Mutant, ...] = (
    one(
        "blocks believed unseen",
        f"{INDEX}/lsm/run_kernels.py",
        "            if seen[block] == 0:\n",
        "            if seen[block] == 2:\n",
        f"{_RUNS}::test_a_damaged_block_is_met_only_where_it_is_touched",
        f"{_RUNS}::test_two_blocks_that_changed_places_are_refused",
    ),
    one(
        "of four blocks the first is checked",
        f"{INDEX}/lsm/run_kernels.py",
        "        if not _is_whole(blocks, four[i], crcs[i], fences, salt):\n",
        "        if i == 0 and not _is_whole(blocks, four[i], crcs[i], fences, salt):\n",
        f"{_RUNS}::test_a_damaged_block_is_met_among_many_that_are_touched_at_once",
    ),
    one(
        "a block of another run",
        f"{INDEX}/lsm/run_kernels.py",
        "words[_NUMBER] == stamp and words[0] == fences[block] and",
        "words[_NUMBER] & _LOW == stamp & _LOW and",
        f"{_RUNS}::test_damage_anywhere_is_refused",
    ),
    one(
        "one block for a tag",
        f"{INDEX}/lsm/run_kernels.py",
        "            if fences[block] == tag and words[1] & _LOW > home:",
        "            if fences[block] == tag and words[1] & _LOW > home and block < 0:",
        f"{_RUNS}::test_what_was_put_in_is_found_and_nothing_else",
    ),
    one(
        "the newest archive wins",
        f"{INDEX}/lsm/run_kernels.py",
        "    return word << _HALF | word >> _HALF\n",
        "    return word << _HALF | ~word >> _HALF\n",
        f"{_RUNS}::test_a_merge_is_that_of_dicts",
    ),
    one(
        "a merge keeps what has gone",
        f"{INDEX}/lsm/run_kernels.py",
        "        if keep[archive] != 0 and (first",
        "        if archive >= 0 and (first",
        f"{_RUNS}::test_a_merge_is_that_of_dicts",
    ),
    one(
        "what has gone takes its double along",
        f"{INDEX}/lsm/run_kernels.py",
        "            last_tag, last_home, first = tag, home, False\n            count += 1\n",
        "            count += 1\n        last_tag, last_home, first = tag, home, False\n",
        f"{_RUNS}::test_a_merge_is_that_of_dicts",
    ),
    one(
        "fences believed",
        f"{INDEX}/lsm/run.py",
        "        self._require(zlib.crc32(tags) == fences_crc,",
        "        self._require(fences_crc >= 0,",
        f"{_RUNS}::test_damage_anywhere_is_refused",
    ),
    one(
        "a full filter denies",
        f"{INDEX}/lsm/bloom_blocked.py",
        "        return self.ids <= self.capacity\n",
        "        return True\n",
        f"{_FILTERS}::test_a_filter_that_took_in_more_than_it_can_says_maybe_to_everything",
    ),
    one(
        "a full pybloom denies",
        f"{INDEX}/lsm/bloom_pybloom.py",
        "            self.sound = False\n",
        "            pass\n",
        f"{_FILTERS}::test_a_filter_that_took_in_more_than_it_can_says_maybe_to_everything",
    ),
    one(
        "soundness lost in saving",
        f"{INDEX}/lsm/bloom_pybloom.py",
        '        self.ids, self.sound = head["ids"], head["sound"]\n',
        '        self.ids = head["ids"]\n',
        f"{_FILTERS}::test_a_filter_that_took_in_more_than_it_can_says_maybe_to_everything",
    ),
    one(
        "words filled evenly",
        f"{INDEX}/lsm/bloom_blocked.py",
        "    seen = float(poisson @ _rates(hashes))\n",
        "    seen = float((1 - (1 - 1 / WORD_BITS) ** (hashes * load)) ** hashes)\n",
        f"{_FILTERS}::test_the_rate_is_within_a_tenth_of_the_design",
    ),
    one(
        "filters of another library",
        f"{INDEX}/lsm/bloom_pybloom.py",
        ' or head["libraries"] != _libraries():',
        ":",
        f"{_FILTERS}::test_a_filter_of_another_version_of_pybloom_live_or_what_it_hashes_with_is_not_loaded",
    ),
    one(
        "filters of another function",
        f"{INDEX}/lsm/bloom_blocked.py",
        '        if head["function"] != FUNCTION:\n',
        '        if head["function"] == "":\n',
        f"{_FILTERS}::test_a_filter_of_another_format_function_or_library_is_not_loaded",
    ),
    one(
        "damaged filters",
        f"{INDEX}/lsm/bloom_format.py",
        "_CRC.unpack(view[end:])[0] != zlib.crc32(view[:end])",
        "len(view[end:]) != 4",
        f"{_FILTERS}::test_a_saved_filter_that_was_damaged_is_not_loaded",
    ),
    one(
        "a run has its name before its bytes",
        f"{RUNS}/local.py",
        "                    synced = end\n            self._disk.sync(fd)\n",
        "                    synced = end\n",
        f"{_FILES}::test_in_every_crash_state_a_run_is_whole_or_not_there",
    ),
    one(
        "a run's name not synced",
        f"{RUNS}/local.py",
        "            raise\n        self._disk.sync_folder(self._folder)\n",
        "            raise\n",
        f"{_FILES}::test_in_every_crash_state_a_run_is_whole_or_not_there",
        f"{_LEDGERS}::test_the_log_keeps_its_promises_when_the_power_fails",
    ),
    one(
        "a late thread writes its run",
        f"{RUNS}/local.py",
        "            with self._changing:\n                self._own()\n                self._disk.rename",
        "            with self._changing:\n                self._disk.rename",
        f"{_LEDGERS}::test_the_ledger_keeps_its_promises",
    ),
    one(
        "runs cut short stay",
        f"{RUNS}/local.py",
        "            await finished(asyncio.to_thread(runs.remove_unfinished))\n",
        "",
        f"{_FILES}::test_files_that_are_no_runs_are_not_listed",
    ),
    one(
        "an accepted copy keeps runs of what it lost",
        f"{LOG}/admin/init.py",
        "    empty_folder(data.disk, new.runs)\n",
        "",
        f"{_FILES}::test_an_older_copy_that_is_accepted_has_no_runs_of_what_it_lost",
    ),
)
