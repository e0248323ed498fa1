"""Planted bugs of operators' actions: forget, release, fence, drain, and their audit trail."""

from tests.mutants.edits import delete, replace, without
from tests.mutants.mutant import one

ENGINE, INDEX, HTTP = "service/oncegate/engine", "service/oncegate/index", "service/oncegate/transports/http"
_ENGINE = "tests/engine/usecases/test_operators.py"
_DOOR = "tests/transports/http/test_operators.py"
_VERBS = "tests/cli/test_operating.py"

OPERATORS = (
    one(
        "one id of many is forgotten",
        "oncegate.engine.usecases.operations.actions::Actions.forget",
        replace("known.tobytes", "known[:1].tobytes"),
        f"{_ENGINE}::test_forgotten_ids_are_granted_to_the_next_caller_and_no_others_are",
    ),
    one(
        "ids forgotten under a live claim",
        "oncegate.core.operator_actions::FORGET",
        replace("Forgetting.REFUSE_LIVE", "Forgetting.NOTHING"),
        f"{_ENGINE}::test_an_id_that_a_claim_holds_keeps_all_of_them_and_the_ledger_has_no_word_of_it",
    ),
    one(
        "ids forgotten that left memory",
        "oncegate.engine.usecases.operations.actions::Actions._known",
        replace("decision.archives >= 0", "decision.archives < -1"),
        f"{_ENGINE}::test_ids_that_left_memory_are_refused_and_what_stayed_is_forgotten",
    ),
    one(
        "ids forgotten on their way out of memory",
        "oncegate.engine.usecases.operations.actions::Actions.forget",
        replace("self._evicting()", "False"),
        f"{_ENGINE}::test_ids_on_their_way_out_of_memory_are_asked_for_again",
    ),
    one(
        "an action without a word in the ledger",
        "oncegate.engine.usecases.operations.trail::Trail.submit",
        without("told"),
        f"{_ENGINE}::test_a_fenced_attempt_gets_the_error_and_the_next_attempt_waits_for_no_lease",
    ),
    one(
        "the next attempt waits for a fenced one's lease",
        "oncegate.engine.usecases.operations.actions::Actions.fence",
        delete("journal.index.producers.producers[name].lease_until_ms = journal.clock.monotonic_ms()"),
        f"{_ENGINE}::test_a_fenced_attempt_gets_the_error_and_the_next_attempt_waits_for_no_lease",
    ),
    one(
        "the trail ends with a compaction",
        "oncegate.index.shard::ShardIndex._in_order",
        replace("audit.snapshot", "list"),
        f"{_ENGINE}::test_the_trail_lists_the_newest_first_page_by_page_also_after_a_restart_and_a_compaction",
    ),
    one(
        "a refused action pushes the oldest out of the trail",
        "oncegate.index.audit_trail::AuditTrail.apply.undo",
        replace("gone is not None", "False"),
        f"{_ENGINE}::test_the_oldest_actions_go_when_there_are_too_many_and_come_back_where_the_last_was_refused",
    ),
    one(
        "a caller's claimed name is trusted",
        "oncegate.transports.writes::noted",
        replace(
            "f'{caller} ({who})' if caller and who and (who != caller) else caller or who or ''",
            "f'{caller} ({who})' if False else who or caller or ''",
        ),
        f"{_DOOR}::test_the_name_in_the_trail_is_the_credentials_and_the_callers_text_is_beside_it",
    ),
    one(
        "a drained gateway grants on hot routes",
        "oncegate.transports.http.call::Call.check",
        delete("check_draining(...)"),
        f"{_DOOR}::test_a_drained_gateway_finishes_what_is_open_begins_nothing_and_is_not_ready",
    ),
    one(
        "a drained gateway grants over gRPC",
        "oncegate.transports.grpc.calls::_answered",
        delete("check_draining(...)"),
        f"{_DOOR}::test_a_drained_gateway_refuses_new_work_over_grpc_and_on_hot_routes_too",
    ),
    one(
        "a drained gateway is ready",
        "oncegate.transports.health::ready",
        replace("(note := gateway.draining) is not None", "(note := gateway.draining) is not None and False"),
        f"{_DOOR}::test_a_drained_gateway_finishes_what_is_open_begins_nothing_and_is_not_ready",
    ),
    one(
        "a drain counts as over after the gateway's restart",
        "oncegate.cli.drain::drain",
        replace("not state['draining']", "False"),
        "tests/cli/test_operating.py::test_a_drain_of_a_gateway_that_restarts_meanwhile_is_no_drain",
    ),
    one(
        "an operator's request without an answer is reported as not done",
        "oncegate.cli.requests::RunningGateway.text",
        replace("request.get_method() == 'GET'", "True"),
        "tests/cli/test_requests.py::test_requests_without_an_answer_are_unknown_and_reads_are_not",
    ),
    one(
        "a verb asks about the default namespace, whichever is named",
        "oncegate.cli.requests::asking",
        replace("('url', 'namespace', 'ca', 'certificate')", "('url', 'ca', 'certificate')"),
        "tests/cli/test_operating.py::test_ids_are_forgotten_from_words_and_from_a_file",
    ),
    one(
        "a verb shows no certificate",
        "oncegate.cli.requests::asking",
        replace("('url', 'namespace', 'ca', 'certificate')", "('url', 'namespace', 'ca')"),
        "tests/cli/test_requests.py::test_a_verb_asks_over_tls_with_its_key_and_its_certificate",
    ),
    one(
        "a release is in the audit trail as a resolution",
        "oncegate.cli.operators::release",
        replace(
            ("{'outcome': 'not_done', 'verb': 'release', 'holder_gone': holder_gone, **note(reason, who)}"),
            "{'outcome': 'not_done', 'holder_gone': holder_gone, **note(reason, who)}",
        ),
        "tests/cli/test_operating.py::test_a_claim_is_released_once_its_holder_is_declared_dead",
    ),
    one(
        "a drained gateway reports that it recovers",
        "oncegate.transports.http.routes.service::_health",
        replace("Stopping if answer.is_drained else Recovering", "Recovering"),
        f"{_DOOR}::test_a_drained_gateway_finishes_what_is_open_begins_nothing_and_is_not_ready",
    ),
    one(
        "the probe reveals an operator's reason",
        "oncegate.transports.health::without_names",
        replace("f'{DRAINED}; {UNDO} has it take new work again'", "answer.detail"),
        f"{_DOOR}::test_who_shows_no_key_learns_that_it_is_drained_and_not_by_whom_or_why",
    ),
    one(
        "a live claim given back without a word of its holder",
        "oncegate.engine.usecases.operations.leftovers::Leftovers.of_claim",
        replace("Leftover.GONE if request.holder_gone else Leftover.LIVE", "Leftover.GONE"),
        f"{_DOOR}::test_a_refused_action_leaves_no_trace_and_changes_nothing",
    ),
    one(
        "a live claim in doubt",
        "oncegate.engine.usecases.operations.overview::Overview.left_claims",
        replace(
            ("(holders.state[:made] == OPEN) & (holders.named[:made] > 0) & (holders.lease_until_ms[:made] <= now_ms)"),
            "(holders.state[:made] == OPEN) & (holders.named[:made] > 0)",
        ),
        f"{_DOOR}::test_claims_in_doubt_are_those_whose_lease_is_over_and_that_hold_something",
    ),
    one(
        "a claim in doubt that holds nothing",
        "oncegate.engine.usecases.operations.overview::Overview.left_claims",
        replace("(holders.state[:made] == OPEN) & (holders.named[:made] > 0)", "holders.state[:made] == OPEN"),
        f"{_DOOR}::test_claims_in_doubt_are_those_whose_lease_is_over_and_that_hold_something",
    ),
    one(
        "a lag without the first sequence",
        "oncegate.engine.usecases.operations.overview::Overview.producers",
        replace("-1 if one.watermark is None else one.watermark", "0 if one.watermark is None else one.watermark"),
        f"{_DOOR}::test_producers_are_listed_by_their_last_activity_with_the_lag_of_acks",
    ),
    one(
        "a console that any script may change",
        "oncegate.transports.http.console::POLICY",
        replace(
            (
                "f\"default-src 'none'; style-src {_hash_of(_STYLE)}; script-src "
                "{_hash_of(_SCRIPT)}; connect-src 'self'; img-src data:; base-uri 'none'; "
                "form-action 'none'; frame-ancestors 'none'\""
            ),
            (
                "f\"default-src 'none'; style-src {_hash_of(_STYLE)}; script-src "
                "'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; "
                "form-action 'none'; frame-ancestors 'none'\""
            ),
        ),
        f"{_DOOR}::test_the_console_is_a_public_page_that_may_call_only_its_gateway",
    ),
    one(
        "a dedup scope is forgotten without a terminal's confirmation",
        "oncegate.cli.forget::_forget_all",
        replace("not id_set or not sys.stdin.isatty()", "False"),
        f"{_VERBS}::test_a_set_is_not_forgotten_without_its_name_and_nothing_is_noted",
    ),
    one(
        "the Enter key forgets all claims",
        "oncegate.cli.forget::_forget_all",
        replace("not id_set or not sys.stdin.isatty()", "not sys.stdin.isatty()"),
        f"{_VERBS}::test_the_enter_key_alone_forgets_no_claims_whose_set_has_an_empty_name",
    ),
    one(
        "a set is forgotten without the question",
        "oncegate.cli.forget::_forget_all",
        replace("typer.prompt(question, default='', show_default=False)", "id_set"),
        f"{_VERBS}::test_a_terminal_is_asked_for_the_name_of_the_set",
    ),
    one(
        "ids beside --all are ignored",
        "oncegate.cli.forget::forget",
        replace("ids or file is not None or columns", "columns"),
        f"{_VERBS}::test_a_set_is_not_forgotten_without_its_name_and_nothing_is_noted",
    ),
)
