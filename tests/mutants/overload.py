"""Planted bugs of what bounds a gateway: answers that are not read, probes beside connections, overload."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import ENGINE

HTTP, GRPC = "service/oncegate/transports/http", "service/oncegate/transports/grpc"
_ADMISSION = "tests/engine/test_admission.py"
_UNREAD = "tests/transports/http/test_unread_answers.py"
_UNREAD_CALLS = "tests/transports/grpc/test_unread_answers.py"
_PROBES = "tests/transports/http/test_probes.py"
_ARRIVE = "tests/transports/http/test_refusals_arrive.py"

OVERLOAD: tuple[Mutant, ...] = (
    one(
        "a caller's share of answers ends a byte late",
        f"{ENGINE}/admission.py",
        "        if mine and mine + size_bytes > self._limit_bytes // ANSWER_SHARES:",
        "        if mine and mine + size_bytes > self._limit_bytes // ANSWER_SHARES + 1:",
        f"{_ADMISSION}::test_one_caller_has_an_eighth_of_the_room_for_answers_and_a_first_answer_of_any_size",
    ),
    one(
        "one caller's answers are everybody's",
        f"{ENGINE}/admission.py",
        "        mine = self._of.get(caller, 0)\n",
        "        mine = sum(self._of.values())\n",
        f"{_ADMISSION}::test_one_caller_has_an_eighth_of_the_room_for_answers_and_a_first_answer_of_any_size",
    ),
    one(
        "answers have room of their own beside bodies",
        f"{ENGINE}/admission.py",
        "        self._admission.size_bytes += size_bytes\n        if left:",
        "        if left:",
        f"{_ADMISSION}::test_bodies_and_answers_share_the_room",
    ),
    one(
        "the first that waits for room keeps the others waiting",
        f"{ENGINE}/admission.py",
        "            if not turn.done() and self.fits(caller, size_bytes):\n",
        "            if not self.fits(caller, size_bytes):\n                return\n            if not turn.done():\n",
        f"{_ADMISSION}::test_who_waits_for_room_goes_on_when_there_is_some_and_keeps_no_other_caller_waiting",
    ),
    one(
        "room of an answer that is dropped is lost",
        f"{ENGINE}/admission.py",
        "        if self.size_bytes:\n            self.release()\n",
        "        pass\n",
        f"{_ADMISSION}::test_room_of_an_answer_that_is_dropped_is_given_back",
    ),
    one(
        "a small request is refused for answers that are not read",
        f"{ENGINE}/admission.py",
        "        if size_bytes > SMALL_ANSWER_BYTES and not",
        "        if size_bytes >= SMALL_ANSWER_BYTES and not",
        f"{_ADMISSION}::test_a_request_with_a_large_body_is_refused_while_its_caller_reads_nothing_and_a_small_one_is_not",
    ),
    one(
        "what waits in a connection is not counted",
        f"{HTTP}/server/protocol.py",
        "        if gateway is not None and self._unread is None:",
        "        if gateway is not None and self._unread is not None:",
        f"{_UNREAD}::test_readers_that_do_not_read_fill_their_own_share_and_others_are_served",
    ),
    one(
        "what was read stays counted",
        f"{HTTP}/server/protocol.py",
        "        self._taken()\n        super().resume_writing()",
        "        super().resume_writing()",
        f"{_UNREAD}::test_what_follows_an_answer_that_is_not_read_is_not_begun",
    ),
    one(
        "requests are answered behind an answer that is not read",
        f"{HTTP}/server/protocol.py",
        "        if self.flow.write_paused:\n            self.flow.pause_reading()\n            self.pipeline",
        "        if False:\n            self.flow.pause_reading()\n            self.pipeline",
        f"{_UNREAD}::test_what_follows_an_answer_that_is_not_read_is_not_begun",
    ),
    one(
        "who takes no byte is waited for",
        f"{HTTP}/server/protocol.py",
        "            if cut := closing.cut_off(self._unread, self._unread_looks):",
        "            if cut := closing.cut_off({}, self._unread_looks):",
        f"{_UNREAD}::test_a_reader_that_takes_no_byte_is_cut_off_and_its_room_is_given_back",
    ),
    one(
        "a page is made for a reader that has gone",
        f"{HTTP}/taking.py",
        "        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)",
        "        await asyncio.wait((task,), return_when=asyncio.FIRST_COMPLETED)",
        f"{_UNREAD}::test_a_read_whose_caller_has_gone_is_not_made",
    ),
    one(
        "a page goes on behind its end",
        "service/oncegate/transports/decode/records.py",
        "        if is_full or not found or page_bytes <= 0:",
        "        if is_full or not found:",
        f"{_UNREAD}::test_a_page_ends_at_its_size_and_rows_written_together_come_as_one_page_of_arrow",
    ),
    one(
        "answers over gRPC are not counted",
        f"{GRPC}/calls.py",
        "        if (size_bytes := found.ByteSize()) > SMALL_ANSWER_BYTES:",
        "        if (size_bytes := found.ByteSize()) > SMALL_ANSWER_BYTES << 20:",
        f"{_UNREAD_CALLS}::test_answers_that_a_peer_does_not_take_are_counted_and_given_back_when_it_goes",
    ),
    one(
        "a large call is let in whatever its caller has not read",
        "service/oncegate/transports/incoming.py",
        "    gateway.admission.answers.check(incoming.sharer(), size_bytes)\n",
        "",
        f"{_UNREAD_CALLS}::test_large_calls_are_refused_while_their_caller_takes_no_answers_and_small_ones_are_not",
    ),
    one(
        "probes are refused once others hold their port",
        f"{HTTP}/server/probes.py",
        "        if len(self.connections) >= self.connections_max:",
        "        if len(self.connections) > self.connections_max:",
        f"{_PROBES}::test_one_connection_more_than_there_may_be_ends_the_oldest_that_is_idle",
    ),
    one(
        "the newest connection of a probe is ended for another",
        f"{HTTP}/server/probes.py",
        "            oldest = min(self.connections, key=_order)",
        "            oldest = max(self.connections, key=_order)",
        f"{_PROBES}::test_one_connection_more_than_there_may_be_ends_the_oldest_that_is_idle",
    ),
    one(
        "the port of probes answers everything",
        f"{HTTP}/server/probes.py",
        '        if scope["path"] in PATHS:',
        '        if scope["path"]:',
        f"{_PROBES}::test_probes_are_answered_there_and_nothing_else_is",
    ),
    one(
        "descriptors of probes are given to connections",
        "service/oncegate/runtime/descriptors.py",
        "    left = limit - AT_REST - kept - limit",
        "    left = limit - AT_REST - limit",
        "tests/faults/server/test_descriptors.py::test_the_shares_together_are_below_the_limit",
    ),
    one(
        "gRPC speaks TLS 1.2",
        f"{GRPC}/__init__.py",
        'os.environ["GRPC_SSL_CIPHER_SUITES"] = "ECDHE-PSK-CHACHA20-POLY1305"\n',
        "",
        "tests/transports/test_tls.py::test_both_doors_speak_tls_1_3_alone_and_no_session_goes_on_in_a_later_connection",
    ),
    one(
        "a session over gRPC goes on in a later connection",
        f"{GRPC}/server.py",
        "    return grpc.dynamic_ssl_server_credentials(newest(), newest, tls.asks_callers)",
        "    return grpc.dynamic_ssl_server_credentials(newest(), lambda: None, tls.asks_callers)",
        "tests/transports/test_tls.py::test_both_doors_speak_tls_1_3_alone_and_no_session_goes_on_in_a_later_connection",
    ),
    one(
        "a refusal is followed by a reset",
        f"{HTTP}/server/protocol.py",
        "        if (self.cycle is not None and self.cycle.more_body) or self.pipeline or self._goes_on:\n",
        "        if False:\n",
        f"{_ARRIVE}::test_who_is_refused_before_its_body_has_come_gets_the_refusal_and_no_reset",
    ),
    one(
        "who connects beyond the limit is answered before it has asked",
        f"{HTTP}/server/protocol.py",
        "        if beyond > refused_max(self.connections_max):",
        "        if beyond > 0:",
        f"{_ARRIVE}::test_who_connects_beyond_the_limit_is_told_so_once_it_has_asked",
    ),
    one(
        "a refused connection is kept until its caller closes it",
        f"{HTTP}/server/closing.py",
        "    return asyncio.get_running_loop().call_later(LINGER_S, transport.abort)",
        "    return asyncio.get_running_loop().call_later(1_000 * LINGER_S, transport.abort)",
        f"{_ARRIVE}::test_who_does_not_close_after_a_refusal_is_cut_off",
    ),
)
