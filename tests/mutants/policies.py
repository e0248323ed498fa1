"""Planted bugs of a namespace's policies."""

from tests.mutants.edits import cell, delete, replace, without
from tests.mutants.mutant import Mutant, one

_CELLS = "tests/index/claims/test_cells.py"
_EXPIRY = "tests/engine/usecases/test_lease_expiry.py"
_DOORS = "tests/transports/test_policies.py"
_SHADOW = "tests/engine/usecases/test_shadow.py"
_TIMES = "tests/engine/usecases/test_id_times.py"
_PROMISES = "tests/transports/http/test_promises.py"
_CLIENT = "tests/client/sync/test_in_doubt.py"

POLICIES: tuple[Mutant, ...] = (
    one(
        "who asks for what is held takes it over",
        "oncegate.core.claims::EXPIRED",
        replace(
            (
                "{(IdState.CLAIMED_OVER, Asker.SAME_TOKEN): CLAIM[IdState.CLAIMED_LIVE, "
                "Asker.SAME_TOKEN], (IdState.CLAIMED_OVER, Asker.OTHER): _HOLDS}"
            ),
            ("{(IdState.CLAIMED_OVER, Asker.SAME_TOKEN): CLAIM[IdState.CLAIMED_LIVE, Asker.SAME_TOKEN]}"),
        ),
        f"{_CELLS}::test_an_id_is_answered_according_to_its_cell_without_takeovers",
    ),
    one(
        "produce takes over what is in doubt",
        "oncegate.core.claims::EXPIRED",
        cell(
            "LeaseExpiry.FAIL",
            (
                "{'claim': {(IdState.CLAIMED_OVER, asker): _IN_DOUBT for asker in "
                "(Asker.REPEAT, Asker.SAME_TOKEN, Asker.OTHER)}, 'take': "
                "{(IdState.CLAIMED_OVER, asker): _IN_DOUBT for asker in Asker}}"
            ),
        ),
        f"{_EXPIRY}::test_an_expired_id_is_not_granted_by_any_verb",
    ),
    one(
        "an id in doubt is reported as a duplicate",
        "oncegate.index.claims.store::_VERDICTS",
        cell("Action.IN_DOUBT", "Verdict.DUPLICATE"),
        f"{_DOORS}::test_every_transport_answers_expired_ids_by_the_namespaces_setting",
    ),
    one(
        "a later epoch takes over what is held",
        "oncegate.index.shard::ShardIndex._let_expire",
        delete("self.producers.let_expire(...)"),
        f"{_EXPIRY}::test_leftovers_of_an_older_epoch_are_not_granted_and_a_person_resolves_them",
    ),
    one(
        "a snapshot forgets what becomes of leases",
        "oncegate.index.settings::NamespaceSettings.restore",
        delete("self._obey()"),
        f"{_EXPIRY}::test_it_outlives_the_process_and_a_snapshot",
    ),
    one(
        "a setting that was refused is in force",
        "oncegate.index.settings::NamespaceSettings.apply.undo",
        delete("self._obey()"),
        f"{_EXPIRY}::test_a_setting_that_the_ledger_refused_is_not_in_force",
    ),
    one(
        "the client drops what is in doubt",
        "oncegate_spark.protocol.calls.attempt::AttemptCalls._claim",
        replace("'IN_DOUBT' in verdicts", "'IN_DOUBT' in ()"),
        f"{_CLIENT}::test_who_claims_what_is_in_doubt_is_stopped_and_what_was_granted_is_released",
    ),
    one(
        "an id that is past is new",
        "oncegate.index.table.kernels::_is_past",
        replace("made_ms[i] <= np.uint64(past_ms)", "made_ms[i] < 0 * np.uint64(past_ms)"),
        f"{_CELLS}::test_an_id_is_answered_according_to_its_cell",
        f"{_TIMES}::test_in_any_order_of_events_nothing_done_is_granted_again_and_nothing_young_is_stale",
    ),
    one(
        "a known id becomes STALE with age",
        "oncegate.index.table.kernels::decide",
        replace("state == _ABSENT and _is_past(made_ms, past_ms, i)", "_is_past(made_ms, past_ms, i)"),
        f"{_TIMES}::test_known_ids_are_answered_by_their_state_however_old",
    ),
    one(
        "claims that are decided together ask for no time",
        "oncegate.index.table.kernels::claim_each",
        replace("made_ms[whole] if made_ms.size > 0 else made_ms", "made_ms[:0]"),
        f"{_TIMES}::test_every_verb_reports_stale_ids_and_writes_none",
    ),
    one(
        "a longer horizon makes new what is forgotten",
        "oncegate.index.settings::NamespaceSettings.apply",
        replace("max(self.in_force.known_from_ms, entry.before_wall_ms)", "0"),
        f"{_TIMES}::test_forgotten_ids_are_never_new_whatever_the_settings",
    ),
    one(
        "clocks of writers are trusted to the millisecond",
        "oncegate.core.claims::past_ms",
        replace("since_ms + ID_TIME_SKEW_MS if since_ms > 0 else 0", "max(0, since_ms)"),
        f"{_TIMES}::test_an_id_is_past_to_the_millisecond_a_minute_before_the_horizon",
    ),
    one(
        "ids over gRPC carry no time",
        "oncegate.transports.grpc.claims::_claim_request",
        without("made_ms="),
        f"{_DOORS}::test_every_transport_answers_stale_for_an_id_older_than_the_retention_of_ids",
    ),
    one(
        "the hour of an event id is read as minutes",
        "oncegate.hashing.id_times::_WEIGHTS",
        replace("np.arange(11, -1, -1, dtype=np.uint64)", "np.arange(10, -2, -1).clip(0).astype(np.uint64)"),
        "tests/hashing/test_id_times.py::test_event_ids_are_read_as_the_client_reads_them",
    ),
    one(
        "shadow mode returns the real verdict",
        "oncegate.engine.policies.shadow::_granted",
        replace("np.full(len(verdicts), told, np.uint8)", "verdicts"),
        f"{_DOORS}::test_every_transport_grants_all_in_shadow_mode_with_the_would_be_verdict",
    ),
    one(
        "in shadow mode rows of known ids are reported as written but are not",
        "oncegate.engine.usecases.produce::Records._write",
        delete("if others.any():\n    ..."),
        f"{_SHADOW}::test_all_rows_are_written_in_one_append_and_only_the_new_ones_become_known",
    ),
    one(
        "in shadow mode a repeat writes its rows again",
        "oncegate.engine.usecases.produce::Records._others",
        replace("not self._in_shadow or decision.claim is not None", "not self._in_shadow"),
        f"{_SHADOW}::test_all_rows_are_written_in_one_append_and_only_the_new_ones_become_known",
    ),
    one(
        "two parts of one partition's rows get the same offset",
        "oncegate.engine.usecases.produce::Records._record",
        replace(
            "self._index.topics.high_offset(request.topic, share.partition) + behind",
            "self._index.topics.high_offset(request.topic, share.partition)",
        ),
        f"{_SHADOW}::test_all_rows_are_written_in_one_append_and_only_the_new_ones_become_known",
    ),
    one(
        "an id taken over in shadow mode must be asked for again",
        "oncegate.engine.policies.shadow::settled",
        without("taken_over="),
        f"{_SHADOW}::test_ids_taken_over_are_reported_as_settled_because_they_were_written",
    ),
    one(
        "who holds nothing cannot settle",
        "oncegate.engine.usecases.claims::Claims.settle",
        replace("claim == NO_CLAIM", "claim is None"),
        f"{_DOORS}::test_an_answer_that_holds_nothing_names_a_claim_that_can_be_settled",
    ),
    one(
        "a packed answer has more bytes than a client of before reads",
        "oncegate.transports.http.call::Call.without_shadow",
        replace("asked or media != PACKED or answer.shadow is None", "asked is not None"),
        f"{_DOORS}::test_who_asks_packed_without_shadow_reads_what_a_client_of_before_reads",
    ),
    one(
        "shadow mode counts nothing",
        "oncegate.engine.policies.shadow::_granted",
        delete("counts.add(...)"),
        f"{_DOORS}::test_every_transport_grants_all_in_shadow_mode_with_the_would_be_verdict",
    ),
    one(
        "capabilities promise each namespace what one of no settings does",
        "oncegate.transports.http.routes.service::_writes",
        replace("() if namespace is None else namespace.settings.lowering", "()"),
        f"{_PROMISES}::test_a_namespace_promises_what_its_settings_leave",
    ),
    one(
        "a namespace in shadow mode is promised what it has without",
        "oncegate.transports.promises::promised",
        replace("((SHADOW, shadow), (PASS_MARKED, pass_marked))", "((PASS_MARKED, pass_marked), (SHADOW, shadow))"),
        f"{_PROMISES}::test_a_namespace_promises_what_its_settings_leave",
    ),
    one(
        "shadow mode lowers nothing of claims",
        "oncegate.transports.promises::SHADOW",
        without("'claim'"),
        f"{_PROMISES}::test_a_namespace_promises_what_its_settings_leave",
    ),
)
