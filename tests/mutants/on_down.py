"""Planted bugs of what clients do while a gateway is down."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import CLIENT

_FOLDER = "tests/client/spill/test_folder.py"
_OWNERSHIP = "tests/client/spill/test_ownership.py"
_DOWN = "tests/client/spill/test_on_down.py"
_EFFORT = "tests/client/protocol/test_effort.py"
_IN_ORDER = (
    f"{_DOWN}::test_a_gateway_that_is_killed_costs_what_it_is_set_to_and_what_waits_is_sent_in_order_before_later_rows"
)

ON_DOWN: tuple[Mutant, ...] = (
    one(
        "a call that is to fail at once is tried for all its time",
        f"{CLIENT}/protocol/effort.py",
        "        if down and not self._patient:\n",
        "        if down and self._timeout_ms < 0:\n",
        f"{_DOWN}::test_a_call_that_fails_at_once_waits_for_nothing",
    ),
    one(
        "what ends begun work is given up at once",
        f"{CLIENT}/protocol/calls/steps.py",
        "self.patient or request.ends_work",
        "self.patient",
        _IN_ORDER,
    ),
    one(
        "a connection that went stale is an outage",
        f"{CLIENT}/protocol/effort.py",
        "self._unanswered > 1)",
        "self._unanswered > 0)",
        f"{_DOWN}::test_a_lost_reply_is_asked_for_once_more_before_a_gateway_counts_as_down",
    ),
    one(
        "a gateway that is busy counts as down",
        f"{CLIENT}/protocol/effort.py",
        '"STOPPING", "INTERNAL"})\n',
        '"STOPPING", "INTERNAL", "OVERLOADED"})\n',
        f"{_EFFORT}::test_a_gateway_that_is_only_busy_is_not_down",
    ),
    one(
        "later rows overtake those that wait",
        f"{CLIENT}/sync/spilling.py",
        "        if not self._spill.waiting:\n",
        "        if True:\n",
        f"{_DOWN}::test_rows_that_the_gateway_refuses_hold_those_behind_them_until_they_are_set_aside",
    ),
    one(
        "rows are removed before they are done",
        f"{CLIENT}/sync/spilling.py",
        "        check_namespace(entry, self._namespace)\n",
        "        check_namespace(entry, self._namespace)\n        self._spill.done(number)\n",
        f"{_DOWN}::test_rows_that_the_gateway_refuses_hold_those_behind_them_until_they_are_set_aside",
    ),
    one(
        "rows that wait are sent without their ids",
        f"{CLIENT}/sync/spilling.py",
        "columns = entry.id_col, entry.key_col,",
        "columns = (), entry.key_col,",
        f"{_DOWN}::test_rows_that_a_process_sent_and_died_before_it_removed_them_are_written_once",
    ),
    one(
        "rows that are spilled are told as nothing at all",
        f"{CLIENT}/sync/spilling.py",
        "Written(spilled=entry.rows.num_rows)",
        "Written()",
        _IN_ORDER,
    ),
    one(
        "each call asks a gateway that is down",
        f"{CLIENT}/sync/spilling.py",
        "                    self._retry_ms = now_ms() + RETRY_MS\n",
        "                    pass\n",
        f"{_DOWN}::test_a_gateway_that_stays_down_is_asked_by_few_of_the_calls",
    ),
    one(
        "an entry has its name before it is synced",
        f"{CLIENT}/spill/folder.py",
        "            os.fsync(file.fileno())\n",
        "",
        f"{_FOLDER}::test_an_entry_is_synced_before_it_has_its_name_and_its_name_before_it_counts",
    ),
    one(
        "two processes send one folder",
        f"{CLIENT}/spill/lock.py",
        "        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        "        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)\n",
        f"{_OWNERSHIP}::test_another_process_is_refused_until_the_first_lets_go",
    ),
    one(
        "a folder grows without bound",
        f"{CLIENT}/spill/folder.py",
        "        if held + size > self.bytes_max or",
        "        if",
        f"{_FOLDER}::test_a_folder_takes_no_more_than_its_bytes_and_is_as_it_was_after_a_refusal",
    ),
    one(
        "what was set aside is overwritten by what is set aside later",
        f"{CLIENT}/spill/folder.py",
        "self._numbered(one) for one in (SUFFIX, ASIDE)}",
        "self._numbered(one) for one in (SUFFIX,)}",
        f"{_FOLDER}::test_a_damaged_entry_stops_those_behind_it_until_a_person_sets_it_aside",
    ),
    one(
        "rows of another namespace are sent",
        f"{CLIENT}/spill/stops.py",
        "    if entry.namespace != namespace:\n",
        "    if not entry.namespace:\n",
        f"{_DOWN}::test_rows_of_another_namespace_are_not_sent",
    ),
    one(
        "a lost reply is forgotten when the folder is full",
        f"{CLIENT}/sync/spilling.py",
        '            raise SpillFull(f"{full}; before that: {failed}", outcome=failed.outcome) from failed\n',
        "            raise\n",
        f"{_DOWN}::test_a_full_folder_says_what_is_unknown_of_a_request_whose_reply_was_lost",
    ),
    one(
        "rows that are told STALE are removed unwritten",
        f"{CLIENT}/sync/spilling.py",
        "        check_none_stale(entry, written.stale)\n",
        "",
        f"{_DOWN}::test_rows_that_are_stale_by_the_time_they_are_sent_are_kept_and_stop_those_behind_them",
    ),
    one(
        "an entry is set aside while it is sent",
        f"{CLIENT}/spill/folder.py",
        "            if not mine:\n",
        "            if mine is None:\n",
        f"{_FOLDER}::test_only_the_oldest_entry_is_set_aside_by_its_number_and_never_while_it_is_sent",
    ),
    one(
        "an entry that did not stop is set aside",
        f"{CLIENT}/spill/folder.py",
        "        if number != oldest:\n",
        "        if oldest is None:\n",
        f"{_FOLDER}::test_only_the_oldest_entry_is_set_aside_by_its_number_and_never_while_it_is_sent",
    ),
    one(
        "an entry that cannot be removed counts as removed",
        f"{CLIENT}/spill/folder.py",
        "                self._path(number).unlink(missing_ok=True)\n",
        "                with suppress(OSError):\n                    self._path(number).unlink(missing_ok=True)\n",
        f"{_FOLDER}::test_an_entry_that_cannot_be_removed_is_told_as_written_and_waits_on",
    ),
    one(
        "each local user reads the rows that wait",
        f"{CLIENT}/spill/folder.py",
        "os.O_WRONLY, 0o600)",
        "os.O_WRONLY, 0o644)",
        f"{_OWNERSHIP}::test_rows_that_wait_are_readable_by_their_user_alone",
    ),
    one(
        "each local user lists the folder of rows that wait",
        f"{CLIENT}/spill/folder.py",
        "mkdir(0o700, parents",
        "mkdir(0o755, parents",
        f"{_OWNERSHIP}::test_rows_that_wait_are_readable_by_their_user_alone",
    ),
    one(
        "a folder is used that others can write",
        f"{CLIENT}/spill/lock.py",
        " or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):",
        ":",
        f"{_OWNERSHIP}::test_a_folder_that_others_can_write_is_refused",
    ),
    one(
        "a folder of another user is used",
        f"{CLIENT}/spill/lock.py",
        "    if found.st_uid != os.geteuid() or ",
        "    if ",
        f"{_OWNERSHIP}::test_a_folder_of_another_user_is_refused",
    ),
    one(
        "a forked child keeps the folder of a process that was killed",
        f"{CLIENT}/spill/lock.py",
        "    for lock in list(_HELD):\n",
        "    for lock in list(_HELD)[:0]:\n",
        f"{_OWNERSHIP}::test_a_folder_is_free_when_its_process_is_killed_though_a_forked_child_lives",
    ),
    one(
        "a forked child gives up the lock of its parent",
        f"{CLIENT}/spill/lock.py",
        "        if self._release.detach() is not None:\n            os.close(self._opened)\n",
        "        self._release()\n",
        f"{_OWNERSHIP}::test_a_forked_child_cannot_use_the_folder_of_its_parent_nor_give_up_its_lock",
    ),
    one(
        "a folder is held after it is closed, by who has a copy of its descriptor",
        f"{CLIENT}/spill/lock.py",
        "    fcntl.flock(opened, fcntl.LOCK_UN)\n",
        "",
        f"{_OWNERSHIP}::test_a_folder_is_free_when_it_is_closed_though_something_has_a_copy_of_its_descriptor",
    ),
    one(
        "a folder whose start fails stays locked",
        f"{CLIENT}/spill/folder.py",
        "            except BaseException:\n                self._lock.release()\n",
        "            except BaseException:\n",
        f"{_OWNERSHIP}::test_a_folder_whose_start_fails_is_let_go",
    ),
)
