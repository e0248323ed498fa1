"""Planted bugs by which one namespace that cannot be served stops others, or never recovers."""

from tests.mutants.edits import delete, replace, replace_statement, shift
from tests.mutants.mutant import Mutant, one

_OTHERS = "tests/engine/recovery/test_others_serve.py"
_FOLDER = "tests/faults/server/test_one_damaged.py"
_LIFE = "tests/core/test_lifecycle.py"
_MENDED = f"{_OTHERS}::test_a_namespace_that_is_down_is_reopened_each_minute_and_serves_once_repaired"
_STARTS = f"{_OTHERS}::test_one_namespace_that_cannot_be_opened_is_down_and_the_others_serve"

ONE_NAMESPACE: tuple[Mutant, ...] = (
    one(
        "a namespace that is down is opened no more",
        "oncegate.engine.recovery.owner::Owner._own",
        replace_statement("continue", "return"),
        _MENDED,
    ),
    one(
        "a namespace that is down is opened without a rest",
        "oncegate.engine.recovery.owner::Owner._own",
        replace("max(RETRY_MS, RETRY_PAUSES * took_ms)", "max(1, RETRY_PAUSES * took_ms)"),
        _MENDED,
    ),
    one(
        "a namespace that ended while it served is opened without a rest",
        "oncegate.engine.recovery.owner::Owner._own",
        replace(
            "RETRY_MS if has_served else max(RETRY_MS, RETRY_PAUSES * took_ms)",
            "1 if has_served else max(RETRY_MS, RETRY_PAUSES * took_ms)",
        ),
        f"{_OTHERS}::test_a_namespace_that_is_damaged_while_it_serves_is_mended_without_a_restart",
    ),
    one(
        "damage that takes long to find is looked for all the time",
        "oncegate.engine.recovery.owner::Owner._own",
        replace("RETRY_PAUSES * took_ms", "took_ms"),
        f"{_OTHERS}::test_damage_that_takes_long_to_find_is_looked_for_in_a_tenth_of_the_time_at_most",
    ),
    one(
        "a namespace that serves again stays down",
        "oncegate.core.lifecycle::AFTER",
        replace(
            "(Event.UNREACHED, Event.SHORT, Event.FENCED)", "(Event.UNREACHED, Event.SHORT, Event.FENCED, Event.OPENED)"
        ),
        f"{_LIFE}::test_each_event_leads_from_each_state_to_the_one_written_here",
        _MENDED,
    ),
    one(
        "damage is forgotten when the ledger cannot be reached",
        "oncegate.engine.recovery.owner::Owner._take",
        replace("isinstance(self._cause, Stop) and (not isinstance(error, Stop))", "False"),
        f"{_OTHERS}::test_damage_stays_the_reason_while_the_ledger_cannot_be_reached",
    ),
    one(
        "who asks for a namespace that is down waits for the next opening",
        "oncegate.engine.recovery.owner::Owner.started",
        delete("if (cause := self.cause) is not None:\n    ..."),
        f"{_OTHERS}::test_while_it_is_reopened_it_is_down_with_the_reason_at_once",
    ),
    one(
        "the error of a namespace that is down keeps the frames of its opening",
        "oncegate.engine.recovery.owner::Owner._take",
        replace("without_frames(error)", "error"),
        f"{_OTHERS}::test_a_kept_error_holds_no_frame_of_the_opening",
    ),
    one(
        "a crash in the upkeep of one namespace ends that of all",
        "oncegate.engine.recovery.owner::Owner.keep_up",
        replace("Exception", "OncegateError"),
        f"{_OTHERS}::test_a_crash_in_the_upkeep_of_one_namespace_leaves_that_of_others_alone",
    ),
    one(
        "an older ledger is served again by who knew a later one",
        "oncegate.engine.recovery.shard_opening::opened_shard",
        delete("_require_seen(...)"),
        f"{_OTHERS}::test_a_ledger_that_lost_what_this_process_acknowledged_is_not_served_again",
    ),
    one(
        "one damaged namespace ends a start",
        "oncegate.engine.gateway::Gateway.start",
        replace(
            (
                "refusals and len(refusals) == len(self._owners) and (not any((isinstance(why, "
                "Recovering) for why in refusals)))"
            ),
            "refusals and (not any((isinstance(why, Recovering) for why in refusals)))",
        ),
        _STARTS,
    ),
    one(
        "a start that can serve nothing continues",
        "oncegate.engine.gateway::Gateway.start",
        replace_statement("raise refusals[0]", "return"),
        f"{_OTHERS}::test_a_gateway_none_of_whose_namespaces_can_be_opened_does_not_start",
    ),
    one(
        "a start ends where one is damaged and another is opened again soon",
        "oncegate.engine.gateway::Gateway.start",
        replace(
            (
                "refusals and len(refusals) == len(self._owners) and (not any((isinstance(why, "
                "Recovering) for why in refusals)))"
            ),
            "refusals and len(refusals) == len(self._owners)",
        ),
        f"{_OTHERS}::test_a_gateway_starts_where_one_is_damaged_and_the_other_is_opened_again_soon",
    ),
    one(
        "a start waits for the longest ledger",
        "oncegate.engine.gateway::Gateway._waited_for_others",
        replace("self.clock.sleep_ms(OPENING_MS)", "self.clock.sleep_ms(OPENING_MS + 1)"),
        f"{_OTHERS}::test_a_start_waits_for_no_ledger_that_takes_longer_than_seconds",
    ),
    one(
        "one namespace that does not serve makes the gateway not ready",
        "oncegate.transports.health::ready",
        replace("len(waiting) < len(states)", "not waiting"),
        _STARTS,
    ),
    one(
        "a gateway is ready that serves nothing",
        "oncegate.transports.health::ready",
        shift("len(waiting) < len(states)"),
        f"{_OTHERS}::test_a_gateway_starts_where_one_is_damaged_and_the_other_is_opened_again_soon",
    ),
    one(
        "a probe of one namespace answers for all",
        "oncegate.transports.health::ready",
        delete("states = {namespace: states[namespace]}"),
        _STARTS,
    ),
    one(
        "anybody learns which namespaces there are by a probe of one",
        "oncegate.transports.http.routes.service::ready",
        replace("namespace is not None and access is not None", "False"),
        "tests/transports/http/test_access_matrix.py::test_the_state_of_a_namespace_is_reported_to_roles_in_it",
    ),
    one(
        "anybody learns which namespaces there are by a probe over gRPC",
        "oncegate.transports.grpc.server::_probe.check",
        replace("slash and server.access is not None", "False"),
        "tests/transports/grpc/test_access_matrix.py::test_the_state_of_a_namespace_is_reported_to_roles_in_it",
    ),
    one(
        "one folder that is gone refuses the whole data folder",
        "oncegate.ledgers.log.data_dir::DataDir._judge",
        replace(
            "any((self._is_there(name) for name in self.ledgers))",
            "all((self._is_there(name) for name in self.ledgers))",
        ),
        f"{_FOLDER}::test_verify_names_each_damaged_ledger_and_reads_the_others",
    ),
    one(
        "a data folder of which nothing is left is taken over",
        "oncegate.ledgers.log.data_dir::DataDir._judge",
        replace("self.ledgers and (not any((self._is_there(name) for name in self.ledgers)))", "False"),
        f"{_FOLDER}::test_a_data_folder_of_which_nothing_is_left_is_refused_and_not_touched",
    ),
    one(
        "a folder that is gone cannot be deleted",
        "oncegate.ledgers.log.deleted::set_aside",
        replace("not (root / namespace).exists()", "False"),
        f"{_FOLDER}::test_a_namespace_whose_folder_is_permanently_gone_is_deleted_by_its_name",
    ),
    one(
        "an accepted ledger is listed alone",
        "oncegate.ledgers.log.admin.init::_accepted",
        replace("{**data.ledgers, namespace: new}", "{namespace: new}"),
        f"{_FOLDER}::test_accept_continues_with_one_namespace_and_leaves_the_others_unchanged",
    ),
    one(
        "a verification ends at the first damaged ledger",
        "oncegate.ledgers.log.admin.verify::verify",
        replace_statement("yield Refused(namespace, error)", "raise"),
        f"{_FOLDER}::test_verify_names_each_damaged_ledger_and_reads_the_others",
    ),
    one(
        "a backup of nothing is a backup",
        "oncegate.ledgers.log.admin.backup::backup",
        replace("isinstance(one, Refused) and (not copied)", "False"),
        f"{_FOLDER}::test_a_backup_leaves_a_damaged_ledger_out_names_it_and_can_be_restored",
    ),
)
