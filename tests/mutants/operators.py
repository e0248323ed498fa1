"""Bugs of what operators do by hand: forget, release, fence, drain, and the trail of it."""

from tests.mutants.mutant import one

ENGINE, INDEX, HTTP = "service/oncegate/engine", "service/oncegate/index", "service/oncegate/transports/http"
_ACTIONS = f"{ENGINE}/usecases/operations/actions.py"
_ENGINE = "tests/engine/usecases/test_operators.py"
_DOOR = "tests/transports/http/test_operators.py"
_FORGET, _VERBS = "service/oncegate/cli/operating/forget.py", "tests/cli/test_operating.py"

OPERATORS = (
    one(
        "one id of many is forgotten",
        _ACTIONS,
        'known.tobytes(), b"", b"", id_set), Released(claim, wall_ms)]',
        'known[:1].tobytes(), b"", b"", id_set), Released(claim, wall_ms)]',
        f"{_ENGINE}::test_what_is_forgotten_is_granted_to_whoever_asks_next_and_nothing_else_is",
    ),
    one(
        "ids forgotten under a live claim",
        "service/oncegate/core/forgetting.py",
        "        Forgetting.REFUSE_LIVE,\n",
        "        Forgetting.NOTHING,\n",
        f"{_ENGINE}::test_an_id_that_a_claim_holds_keeps_all_of_them_and_the_ledger_has_no_word_of_it",
    ),
    one(
        "ids forgotten that left memory",
        _ACTIONS,
        "np.count_nonzero(decision.archives >= 0)",
        "np.count_nonzero(decision.archives < -1)",
        f"{_ENGINE}::test_ids_that_left_memory_are_refused_and_what_stayed_is_forgotten",
    ),
    one(
        "ids forgotten on their way out of memory",
        _ACTIONS,
        "        if self._evicting():\n",
        "        if False:\n",
        f"{_ENGINE}::test_ids_on_their_way_out_of_memory_are_asked_for_again",
    ),
    one(
        "an action without a word in the ledger",
        "service/oncegate/engine/usecases/operations/trail.py",
        "[*entries, told]",
        "[*entries]",
        f"{_ENGINE}::test_who_is_fenced_is_told_so_and_the_next_attempt_waits_for_no_lease",
    ),
    one(
        "the next attempt waits for a fenced one's lease",
        _ACTIONS,
        "        journal.index.producers.producers[name].lease_until_ms = journal.clock.monotonic_ms()\n",
        "",
        f"{_ENGINE}::test_who_is_fenced_is_told_so_and_the_next_attempt_waits_for_no_lease",
    ),
    one(
        "the trail ends with a compaction",
        f"{INDEX}/snapshot/pieces.py",
        "        (_AUDIT, msgspec.msgpack.encode(audit_trail.snapshot())),\n",
        "",
        f"{_ENGINE}::test_the_trail_tells_the_newest_first_page_by_page_also_after_a_restart_and_a_collection",
    ),
    one(
        "a refused action pushes the oldest out of the trail",
        f"{INDEX}/audit_trail.py",
        "            if gone is not None:\n",
        "            if False:\n",
        f"{_ENGINE}::test_the_oldest_actions_go_when_there_are_too_many_and_come_back_where_the_last_was_refused",
    ),
    one(
        "whoever asks is who they say",
        "service/oncegate/transports/writes.py",
        "caller and who and who != caller else caller or who or",
        "False else who or caller or",
        f"{_DOOR}::test_the_name_in_the_trail_is_the_credentials_and_what_a_caller_says_stands_beside_it",
    ),
    one(
        "a drained gateway grants on hot routes",
        f"{HTTP}/taking.py",
        "        draining.check(self._call, request.app.state.gateway)\n",
        "",
        f"{_DOOR}::test_a_drained_gateway_finishes_what_is_open_begins_nothing_and_is_not_ready",
    ),
    one(
        "a drained gateway grants over gRPC",
        "service/oncegate/transports/grpc/calls.py",
        "    draining.check(method.call, gateway)\n",
        "",
        f"{_DOOR}::test_a_drained_gateway_refuses_new_work_over_grpc_and_on_hot_routes_too",
    ),
    one(
        "a drained gateway is ready",
        "service/oncegate/transports/health.py",
        "    if (note := gateway.draining) is not None:\n",
        "    if (note := gateway.draining) is not None and False:\n",
        f"{_DOOR}::test_a_drained_gateway_finishes_what_is_open_begins_nothing_and_is_not_ready",
    ),
    one(
        "a drain is over when the gateway was started anew",
        "service/oncegate/cli/operating/drain.py",
        '            if not state["draining"]:\n',
        "            if False:\n",
        "tests/cli/test_operating.py::test_a_drain_of_a_gateway_that_is_started_anew_meanwhile_is_none",
    ),
    one(
        "what an operator sent and nobody answered was not done",
        "service/oncegate/cli/running/requests.py",
        '        if request.get_method() == "GET":\n',
        "        if True:\n",
        "tests/cli/test_requests.py::test_what_was_sent_and_not_answered_is_unknown_and_what_only_asks_is_not",
    ),
    one(
        "a release stands in the trail as what a resolution is called",
        "service/oncegate/cli/operating/release.py",
        '"verb": "release", ',
        "",
        "tests/cli/test_operating.py::test_a_claim_is_released_once_it_is_said_that_its_holder_is_gone",
    ),
    one(
        "a drained gateway says that it recovers",
        "service/oncegate/transports/http/routes/service.py",
        "        raise (Stopping if answer.is_drained else Recovering)(",
        "        raise Recovering(",
        f"{_DOOR}::test_a_drained_gateway_finishes_what_is_open_begins_nothing_and_is_not_ready",
    ),
    one(
        "whoever asks the probe reads what an operator said",
        "service/oncegate/transports/health.py",
        '        return Answer(False, f"{DRAINED}; {UNDO} has it take new work again", {}, is_drained=True)\n',
        "        return Answer(False, answer.detail, {}, is_drained=True)\n",
        f"{_DOOR}::test_who_shows_no_key_learns_that_it_is_drained_and_not_by_whom_or_why",
    ),
    one(
        "a live claim given back without a word of its holder",
        f"{ENGINE}/usecases/operations/leftovers.py",
        "(Leftover.GONE if request.holder_gone else Leftover.LIVE)",
        "Leftover.GONE",
        f"{_DOOR}::test_a_refused_action_leaves_no_trace_and_changes_nothing",
    ),
    one(
        "a live claim in doubt",
        f"{ENGINE}/usecases/operations/overview.py",
        " & (holders.lease_until_ms[:made] <= now_ms)",
        "",
        f"{_DOOR}::test_claims_in_doubt_are_those_whose_lease_is_over_and_that_hold_something",
    ),
    one(
        "a claim in doubt that holds nothing",
        f"{ENGINE}/usecases/operations/overview.py",
        " & (holders.named[:made] > 0)",
        "",
        f"{_DOOR}::test_claims_in_doubt_are_those_whose_lease_is_over_and_that_hold_something",
    ),
    one(
        "a lag without the first sequence",
        f"{ENGINE}/usecases/operations/overview.py",
        "acked = -1 if one.watermark is None",
        "acked = 0 if one.watermark is None",
        f"{_DOOR}::test_producers_are_listed_by_their_last_activity_and_say_how_far_acks_are_behind",
    ),
    one(
        "a console that any script may change",
        f"{HTTP}/console/__init__.py",
        "script-src {_hash_of(_SCRIPT)}",
        "script-src 'unsafe-inline'",
        f"{_DOOR}::test_the_console_is_a_page_for_everybody_that_may_ask_nobody_but_its_gateway",
    ),
    one(
        "a set is forgotten by whoever has no terminal",
        _FORGET,
        "        if not id_set or not sys.stdin.isatty():\n",
        "        if False:\n",
        f"{_VERBS}::test_a_set_is_not_forgotten_without_its_name_and_nothing_is_noted",
    ),
    one(
        "the Enter key forgets all claims",
        _FORGET,
        "        if not id_set or not sys.stdin.isatty():\n",
        "        if not sys.stdin.isatty():\n",
        f"{_VERBS}::test_the_enter_key_alone_forgets_no_claims_whose_set_has_an_empty_name",
    ),
    one(
        "a set is forgotten without the question",
        _FORGET,
        '        confirm = typer.prompt(asked, default="", show_default=False)\n',
        "        confirm = id_set\n",
        f"{_VERBS}::test_a_terminal_is_asked_for_the_name_of_the_set",
    ),
    one(
        "ids beside --all are ignored",
        _FORGET,
        "            if ids or file is not None or columns:\n",
        "            if columns:\n",
        f"{_VERBS}::test_a_set_is_not_forgotten_without_its_name_and_nothing_is_noted",
    ),
)
