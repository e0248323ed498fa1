"""Planted bugs of the short way through the server: hot routes, their bodies and answers, the append beneath."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import ENGINE, INDEX, LOG

HTTP = "service/oncegate/transports/http"
_FULL = "tests/engine/commit/test_full_ledger.py"
_DIRECT = "tests/transports/http/test_fast_path.py"
_CONNECTIONS = "tests/transports/http/test_connections.py"
_GATHERING = "tests/engine/usecases/test_claim_batching.py"
_TOGETHER = "tests/index/claims/test_bulk_claim.py"

SERVING: tuple[Mutant, ...] = (
    one(
        "half a body taken for all of it",
        f"{HTTP}/server/fast_path.py",
        "        if self.more_body or self.disconnected:",
        "        if self.disconnected:",
        f"{_DIRECT}::test_a_body_that_comes_in_pieces_is_waited_for",
    ),
    one(
        "answers overtake each other",
        f"{HTTP}/server/protocol.py",
        "        if before is None or before.response_complete:",
        "        if before is exchange or before is not exchange:",
        f"{_DIRECT}::test_requests_sent_at_once_on_one_connection_are_answered_in_their_order",
    ),
    one(
        "heads that never end are waited for",
        f"{HTTP}/server/protocol.py",
        "        else:\n            self._rest()\n\n    def data_received",
        "\n    def data_received",
        f"{_DIRECT}::test_a_connection_without_a_whole_head_is_closed_after_its_time",
    ),
    one(
        "an answer lost to what came behind it",
        f"{HTTP}/server/protocol.py",
        "not cycle.response_complete and (self.pipeline or not cycle.more_body):",
        "not cycle.response_complete and not cycle.more_body:",
        f"{_CONNECTIONS}::test_a_body_that_cannot_be_read_takes_no_answer_from_the_request_before_it",
    ),
    one(
        "a body lost to an offer",
        f"{HTTP}/server/protocol.py",
        "self.parser, self.cycle.more_body, self._goes_on = httptools.HttpRequestParser(self), True, True",
        "self.parser, self._goes_on = httptools.HttpRequestParser(self), True",
        f"{_CONNECTIONS}::test_who_offers_another_protocol_is_answered_in_this_one_body_and_all",
    ),
    one(
        "heads without an end",
        f"{HTTP}/server/protocol.py",
        "        if self._head_bytes > HEAD_BYTES:\n",
        "        if self._head_bytes < 0:\n",
        f"{_CONNECTIONS}::test_a_head_that_does_not_end_is_refused_before_it_takes_much_memory",
    ),
    one(
        "busy said before it is durable",
        f"{ENGINE}/usecases/claims.py",
        "        elif decision.claim is not None and bool((decision.actions == Action.BUSY).any()):\n",
        "        elif decision.claim is not None and not len(decision.actions):\n",
        "tests/engine/commit/test_durable_before_said.py"
        "::test_a_repeat_is_told_busy_of_what_was_its_own_only_once_the_takeover_is_durable",
    ),
    one(
        "another answer kept open",
        f"{HTTP}/server/fast_path.py",
        "        if not self.keep_alive:\n            self.transport.close()\n",
        "",
        f"{_DIRECT}::test_a_caller_that_wants_no_more_is_answered_and_let_go",
    ),
    one(
        "verdicts in each other's words",
        f"{HTTP}/codecs.py",
        "_WITHOUT_NUMBER, bytes(range(len(_ITEMS))))",
        "_WITHOUT_NUMBER, bytes(range(len(_ITEMS)))[::-1])",
        "tests/transports/http/test_codecs.py::test_many_verdicts_are_the_same_json_as_each_alone",
    ),
    one(
        "retirements told to the claims alone",
        f"{INDEX}/shard.py",
        "_OF_CLAIMS = (Claimed, Completed, Released, Taken)",
        "_OF_CLAIMS = (Claimed, Completed, Released, Taken, Retired)",
        "tests/engine/maintenance/test_scheduler.py",
    ),
    one(
        "an append noted by its caller",
        f"{LOG}/ledger.py",
        "        written.add_done_callback(partial(self._written, bool(entries)))\n"
        "        await asyncio.shield(written)\n",
        "        await asyncio.shield(written)\n        self._written(bool(entries), written)\n",
        "tests/faults/ledger/test_cancellation.py",
    ),
    one(
        "a save without a rest",
        f"{ENGINE}/maintenance/snapshotter.py",
        "ended_ms + SNAPSHOT_RESTS * (ended_ms - began_ms)",
        "ended_ms",
        "tests/engine/maintenance/test_snapshot_under_load.py::test_a_step_of_saving_is_followed_by_three_times_as_long_for_whoever_asks",
    ),
    one(
        "a claim that waits for others without end",
        f"{ENGINE}/usecases/claim_batching.py",
        " and self._journal.clock.monotonic_ms() - self._since_ms <= WAIT_MS:",
        ":",
        f"{_GATHERING}::test_no_claim_waits_longer_than_that",
    ),
    one(
        "one request's answers are the next one's",
        f"{ENGINE}/usecases/claim_batching.py",
        "            at, first = slice(first, end), end\n",
        "            at = slice(first, end)\n",
        f"{_GATHERING}::test_an_id_that_two_of_them_name_goes_to_the_first",
    ),
    one(
        "taken over claim_batch",
        f"{INDEX}/table/kernels.py",
        "rests_on if taken == 0 else -1, 0",
        "rests_on, 0",
        _TOGETHER,
    ),
    one(
        "all asked for is granted",
        f"{INDEX}/claims/bulk_claim.py",
        "            claim = replace(claim, fresh=raw[16 * first : 16 * end])\n",
        "            pass\n",
        _TOGETHER,
    ),
    one(
        "the first position for all",
        f"{INDEX}/table/kernels.py",
        "= position, position + 1, filled + fresh",
        "= position, position, filled + fresh",
        _TOGETHER,
    ),
    one(
        "one call granted twice",
        f"{ENGINE}/usecases/claim_batching.py",
        "            if call not in calls and not is_repeat(index.store, *call, now_ms)",
        "            if not is_repeat(index.store, *call, now_ms)",
        f"{_GATHERING}::test_a_call_that_is_there_twice_is_granted_once",
    ),
    one(
        "granted claim_batch, said at once",
        f"{ENGINE}/usecases/claim_batching.py",
        "            group_commit.wait(rests_on, one.waiter)\n",
        "            one.waiter.set_result(None)\n",
        f"{_GATHERING}::test_nothing_is_said_before_it_is_durable",
    ),
    one(
        "taken back oldest first",
        f"{INDEX}/claims/bulk_claim.py",
        "range(len(self.rows) - 1, -1, -1)",
        "range(len(self.rows))",
        f"{_GATHERING}::test_a_full_ledger_takes_all_of_them_back",
    ),
    one(
        "a lease from the beginning of time",
        f"{INDEX}/claims/bulk_claim.py",
        "= lease_ms, now_ms + lease_ms",
        "= lease_ms, lease_ms",
        _TOGETHER,
    ),
    one(
        "the row of a dead slot let go of",
        f"{INDEX}/claims/bulk_claim.py",
        "    losers = np.unique(grants.previous[grants.previous != NO_ROW])",
        "    losers = np.unique(grants.previous[:0])",
        _TOGETHER,
    ),
    one(
        "a namespace that stays down has a code of its own",
        "service/oncegate/engine/gateway.py",
        "    kind = type(failed) if isinstance(failed, Stop) else LedgerDown\n",
        "    kind = LedgerDown\n",
        "tests/engine/recovery/test_unknown_end.py::test_a_ledger_that_must_not_serve_stays_down",
    ),
    one(
        "what was written is said by each of its tellers",
        "spark_client/oncegate_spark/protocol/effort.py",
        '    return _WRITTEN.sub("", str(text))\n',
        "    return str(text)\n",
        "tests/client/protocol/test_effort.py",
    ),
    one(
        "a complete is refused while the disk is full",
        f"{ENGINE}/usecases/claims.py",
        "        journal.group_commit.check(ends=True)\n",
        "        journal.group_commit.check()\n",
        f"{_FULL}::test_completes_and_releases_are_written_into_the_room_that_is_kept_for_them",
    ),
    one(
        "sequences are refused their end while the disk is full",
        f"{ENGINE}/usecases/producers.py",
        "            self._journal.group_commit.check(ends=True)\n",
        "            self._journal.group_commit.check()\n",
        f"{_FULL}::test_sequences_too_are_completed_while_full",
    ),
    one(
        "a probe takes what is kept",
        f"{ENGINE}/commit/group_commit.py",
        "        if self.dead is None and self._has_room():\n",
        "        if self.dead is None:\n",
        f"{_FULL}::test_nothing_is_probed_while_the_disk_says_that_only_kept_room_is_left",
    ),
    one(
        "room that is kept and never given back",
        "service/oncegate/ledgers/log/ledger.py",
        "                self._reserve.release()\n",
        "",
        "tests/faults/server/test_full_disk.py",
    ),
    one(
        "a stop waits for who takes nothing",
        f"{HTTP}/server/closing.py",
        "if size_bytes and now_s - since_s >= UNREAD_S]\n",
        "if False]\n",
        f"{_CONNECTIONS}::test_a_caller_that_takes_no_answers_does_not_hold_a_shutdown",
    ),
    one(
        "a stop cuts off who takes its answer slowly",
        f"{HTTP}/server/closing.py",
        "    return known if known is not None and known[0] == size_bytes else (size_bytes, now_s)\n",
        "    return (size_bytes, now_s if known is None else known[1])\n",
        f"{_CONNECTIONS}::test_a_caller_that_takes_its_answer_slowly_gets_it_whole_while_the_server_stops",
    ),
    one(
        "a new namespace takes the room that is kept",
        f"{LOG}/ledgers.py",
        "                self._require_room()\n",
        "                pass\n",
        "tests/faults/ledger/test_reserve.py",
    ),
    one(
        "what a reserve cut short holds is wanted once more",
        f"{LOG}/reserve.py",
        "stat.f_frsize + self._held_bytes()\n",
        "stat.f_frsize\n",
        "tests/faults/ledger/test_reserve.py",
    ),
    one(
        "a full disk is told with the room that was missing first",
        f"{ENGINE}/commit/group_commit.py",
        "        self._missing_bytes = 1 - free_bytes\n",
        "        self._missing_bytes = self._missing_bytes or 1 - free_bytes\n",
        f"{_FULL}::test_a_full_disk_says_how_much_room_is_missing_as_of_its_last_probe",
    ),
)
