"""Planted bugs of what an operator sets a namespace to."""

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
        "service/oncegate/core/claims.py",
        '            (IdState.CLAIMED_OVER, Asker.OTHER): _HOLDS,\n        },\n        "produce"',
        '        },\n        "produce"',
        f"{_CELLS}::test_an_id_is_answered_as_its_cell_says_where_nobody_takes_over",
    ),
    one(
        "produce takes over what is in doubt",
        "service/oncegate/core/claims.py",
        '        "produce": {(IdState.CLAIMED_OVER, asker): _IN_DOUBT for asker in Asker},\n',
        "",
        f"{_EXPIRY}::test_nobody_is_granted_what_ran_out_on_any_way",
    ),
    one(
        "what is in doubt is told as a duplicate",
        "service/oncegate/index/claims/store.py",
        "    Action.IN_DOUBT: Verdict.IN_DOUBT,\n",
        "    Action.IN_DOUBT: Verdict.DUPLICATE,\n",
        f"{_DOORS}::test_every_door_tells_what_ran_out_as_the_namespace_is_set",
    ),
    one(
        "a later epoch takes over what is held",
        "service/oncegate/index/shard.py",
        "        self.producers.store.let_expire(expiry)\n",
        "",
        f"{_EXPIRY}::test_what_an_older_epoch_left_is_granted_to_nobody_and_a_person_resolves_it",
    ),
    one(
        "a snapshot forgets what becomes of leases",
        "service/oncegate/index/shard.py",
        "(self.settings, self.buckets)\n            self._obey()\n",
        "(self.settings, self.buckets)\n",
        f"{_EXPIRY}::test_it_outlives_the_process_and_a_snapshot",
    ),
    one(
        "a setting that was refused is in force",
        "service/oncegate/index/shard.py",
        "self.buckets = before\n            self._obey()\n",
        "self.buckets = before\n",
        f"{_EXPIRY}::test_a_setting_that_the_ledger_refused_is_not_in_force",
    ),
    one(
        "the client drops what is in doubt",
        "spark_client/oncegate_spark/protocol/calls/attempt.py",
        '        if "IN_DOUBT" in verdicts:\n            yield from self._give_back',
        '        if "IN_DOUBT" in ():\n            yield from self._give_back',
        f"{_CLIENT}::test_who_claims_what_is_in_doubt_is_stopped_and_what_was_granted_is_released",
    ),
    one(
        "an id that is past is new",
        "service/oncegate/index/table/kernels.py",
        "    return bool(made_ms.size > 0 and made_ms[i] <= np.uint64(past_ms))\n",
        "    return bool(made_ms.size > 0 and made_ms[i] < 0 * np.uint64(past_ms))\n",
        f"{_CELLS}::test_an_id_is_answered_as_its_cell_says",
        f"{_TIMES}::test_in_any_order_of_events_nothing_done_is_granted_again_and_nothing_young_is_stale",
    ),
    one(
        "what is known is stale as well, once it is old",
        "service/oncegate/index/table/kernels.py",
        "_IS_PAST if state == _ABSENT and _is_past",
        "_IS_PAST if _is_past",
        f"{_TIMES}::test_what_is_known_is_told_as_what_it_is_however_old",
    ),
    one(
        "claims that are decided together ask for no time",
        "service/oncegate/index/table/kernels.py",
        "        made = made_ms[whole] if made_ms.size > 0 else made_ms\n",
        "        made = made_ms[:0]\n",
        f"{_TIMES}::test_every_way_tells_it_and_none_writes_it",
    ),
    one(
        "a longer horizon makes new what is forgotten",
        "service/oncegate/index/shard.py",
        "            known_from_ms = max(self.settings.known_from_ms, entry.before_wall_ms)\n",
        "            known_from_ms = 0\n",
        f"{_TIMES}::test_what_is_forgotten_is_never_new_whatever_is_set",
    ),
    one(
        "clocks of writers are trusted to the millisecond",
        "service/oncegate/core/claims.py",
        "    return since_ms + ID_TIME_SKEW_MS if since_ms > 0 else 0\n",
        "    return max(0, since_ms)\n",
        f"{_TIMES}::test_an_id_is_past_to_the_millisecond_a_minute_before_the_horizon",
    ),
    one(
        "ids over gRPC carry no time",
        "service/oncegate/transports/grpc/claims.py",
        "        made_ms=printer.made_ms,\n",
        "",
        f"{_DOORS}::test_every_door_tells_an_id_stale_that_is_older_than_the_horizon",
    ),
    one(
        "the hour of an event id is read as minutes",
        "service/oncegate/hashing/id_times.py",
        "_WEIGHTS = np.uint64(16) ** np.arange(11, -1, -1, dtype=np.uint64)\n",
        "_WEIGHTS = np.uint64(16) ** np.arange(10, -2, -1).clip(0).astype(np.uint64)\n",
        "tests/hashing/test_id_times.py::test_event_ids_are_read_as_the_client_reads_them",
    ),
    one(
        "shadow mode tells the verdict as it is",
        "service/oncegate/engine/policies/shadow.py",
        "    return np.full(len(verdicts), told, np.uint8), np.zeros",
        "    return verdicts, np.zeros",
        f"{_DOORS}::test_every_door_grants_all_in_shadow_mode_and_says_what_it_would_have_said",
    ),
    one(
        "in shadow mode rows of known ids are told as written, and are not",
        "service/oncegate/engine/usecases/produce.py",
        "        if others.any():\n            written += shares(request.rows, others, partitions)\n",
        "",
        f"{_SHADOW}::test_all_rows_are_written_in_one_append_and_only_the_new_ones_become_known",
    ),
    one(
        "in shadow mode a repeat writes its rows again",
        "service/oncegate/engine/usecases/produce.py",
        "        if not self._in_shadow or decision.claim is not None:\n",
        "        if not self._in_shadow:\n",
        f"{_SHADOW}::test_all_rows_are_written_in_one_append_and_only_the_new_ones_become_known",
    ),
    one(
        "rows of one partition that come in two parts lie at one offset",
        "service/oncegate/engine/usecases/produce.py",
        "high_offset(request.topic, share.partition) + behind\n",
        "high_offset(request.topic, share.partition)\n",
        f"{_SHADOW}::test_all_rows_are_written_in_one_append_and_only_the_new_ones_become_known",
    ),
    one(
        "what was taken over in shadow mode is to be asked for again",
        "service/oncegate/engine/policies/shadow.py",
        "settled=whole, taken_over=0, shadow",
        "settled=whole, shadow",
        f"{_SHADOW}::test_what_was_taken_over_is_told_as_settled_for_it_was_written",
    ),
    one(
        "who holds nothing cannot settle",
        "service/oncegate/engine/shard.py",
        "        if claim == NO_CLAIM:\n",
        "        if claim is None:\n",
        f"{_DOORS}::test_an_answer_that_holds_nothing_names_a_claim_that_can_be_settled",
    ),
    one(
        "a packed answer has more bytes than a client of before reads",
        "service/oncegate/transports/http/query.py",
        "    return answer if asked or media != PACKED or answer.shadow is None else replace(answer, shadow=None)\n",
        "    return answer if asked is not None else replace(answer, shadow=None)\n",
        f"{_DOORS}::test_who_asks_packed_without_shadow_reads_what_a_client_of_before_reads",
    ),
    one(
        "shadow mode counts nothing",
        "service/oncegate/engine/policies/shadow.py",
        "    counts.add(SHADOWED, int(np.count_nonzero(~_MAY_WRITE[verdicts])))\n",
        "",
        f"{_DOORS}::test_every_door_grants_all_in_shadow_mode_and_says_what_it_would_have_said",
    ),
    one(
        "capabilities promise each namespace what one of no settings does",
        "service/oncegate/transports/http/routes/service.py",
        "() if shard is None else shard.settings.lowering\n",
        "()\n",
        f"{_PROMISES}::test_a_namespace_promises_what_its_settings_leave",
    ),
    one(
        "a namespace in shadow mode is promised what it has without",
        "service/oncegate/transports/promises.py",
        "((SHADOW, shadow), (PASS_MARKED, pass_marked))",
        "((PASS_MARKED, pass_marked), (SHADOW, shadow))",
        f"{_PROMISES}::test_a_namespace_promises_what_its_settings_leave",
    ),
    one(
        "shadow mode lowers nothing of claims",
        "service/oncegate/transports/promises.py",
        '    "shadow",\n    ("ids", "claim"),\n',
        '    "shadow",\n    ("ids",),\n',
        f"{_PROMISES}::test_a_namespace_promises_what_its_settings_leave",
    ),
)
