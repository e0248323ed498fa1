"""Planted bugs in the life of a namespace: a cell of the tables, and the code that reads them."""

from tests.mutants.edits import cell, delete, replace
from tests.mutants.mutant import Mutant, one

_LIFE = "tests/core/test_lifecycle.py"
_TOLD = f"{_LIFE}::test_each_event_gives_callers_the_outcome_written_here"
_NEXT = f"{_LIFE}::test_each_event_leads_from_each_state_to_the_one_written_here"
_ENDS = "tests/engine/commit/test_ends.py"
_AT_WORK = f"{_ENDS}::test_callers_in_flight_and_waiting_get_what_the_table_has_for_each_end"
_OWNER = "tests/engine/recovery/test_life.py"
_CONDITIONS = f"{_OWNER}::test_a_condition_changes_the_state_while_it_lasts_and_no_longer"
_TABLE = "oncegate.core.lifecycle"

LIFECYCLE: tuple[Mutant, ...] = (
    one(
        "an end beside appends overtakes the append that the fence refuses",
        "oncegate.ledgers.server.ledger::RemoteLedger.end_beside",
        replace("isinstance(why, LedgerFenced) and self._one.locked()", "False"),
        "tests/faults/redis/test_ledger_ownership.py::"
        "test_a_newer_owner_found_by_upkeep_ends_a_ledger_after_the_append_under_way",
        "tests/faults/kafka/test_served.py::test_a_gateway_that_slept_while_it_was_superseded_answers_nothing_from_memory",
    ),
    one(
        "an append whose end is unknown is reported as not written",
        f"{_TABLE}::ENDS",
        cell(
            "Event.UNKNOWN",
            "Cell(End(AppendOutcome.NOT_WRITTEN, AppendOutcome.NOT_WRITTEN, Reopen.SOON, is_down=True), '', '')",
        ),
        f"{_LIFE}::test_an_unknown_outcome_is_never_reported_as_refused_or_done",
        _TOLD,
    ),
    one(
        "an append under way is reported as not written where its ledger ended beside it",
        f"{_TABLE}::ENDS",
        cell("Event.ENDED", "Cell(End(AppendOutcome.NOT_WRITTEN, AppendOutcome.NOT_WRITTEN, Reopen.SOON), '', '')"),
        f"{_LIFE}::test_an_unknown_outcome_is_never_reported_as_refused_or_done",
        _AT_WORK,
    ),
    one(
        "a fenced append is reported as in doubt",
        f"{_TABLE}::ENDS",
        cell("Event.FENCED", "Cell(End(AppendOutcome.UNKNOWN, AppendOutcome.NOT_WRITTEN, Reopen.LATER), '', '')"),
        _TOLD,
        _AT_WORK,
    ),
    one(
        "damage is looked at again at once",
        f"{_TABLE}::ENDS",
        cell(
            "Event.DAMAGED_BESIDE", "Cell(End(AppendOutcome.UNKNOWN, AppendOutcome.NOT_WRITTEN, Reopen.SOON), '', '')"
        ),
        f"{_LIFE}::test_every_end_is_opened_again_but_a_stop",
    ),
    one(
        "a bug of our own proves that the ledger is down",
        f"{_TABLE}::ENDS",
        cell(
            "Event.FAILED", "Cell(End(AppendOutcome.UNKNOWN, AppendOutcome.UNKNOWN, Reopen.SOON, is_down=True), '', '')"
        ),
        f"{_LIFE}::test_claims_pass_unchecked_only_where_the_ledger_itself_is_known_to_be_down",
    ),
    one(
        "an end beside appends is taken for an append's own",
        f"{_TABLE}::end_of",
        replace("Event.FENCED_BESIDE if beside else Event.FENCED", "Event.FENCED"),
        f"{_LIFE}::test_an_error_is_one_event_by_its_kind",
    ),
    one(
        "damage is taken for an end that an opening clears up",
        f"{_TABLE}::AFTER",
        replace("(Event.DAMAGED, Event.DAMAGED_BESIDE)", "(Event.DAMAGED,)"),
        _NEXT,
    ),
    one(
        "a namespace that is stopped is opened again",
        f"{_TABLE}::AFTER",
        replace("_STOPPED", "_SERVES", nth=2),
        f"{_LIFE}::test_no_event_and_no_condition_leads_out_of_stopped_and_a_stop_ends_every_state",
    ),
    one(
        "an ended ledger serves again without an opening",
        f"{_TABLE}::AFTER",
        replace("_FOLLOWS", "_SERVES"),
        f"{_LIFE}::test_an_ended_ledger_serves_again_only_after_a_new_opening",
    ),
    one(
        "damage passes for another owner's ledger when it cannot be reached",
        f"{_TABLE}::AFTER",
        replace("(Event.UNREACHED, Event.SHORT, Event.FENCED)", "(Event.UNREACHED, Event.SHORT)"),
        _NEXT,
    ),
    one(
        "a drained gateway with a full disk is shown as one with room",
        f"{_TABLE}::WHILE",
        replace("(State.SERVING, State.LEAVING)", "(State.SERVING,)"),
        f"{_LIFE}::test_conditions_refine_the_state_that_is_opening_or_serving_and_no_other",
        _CONDITIONS,
    ),
    one(
        "a drained gateway is not leaving",
        "oncegate.engine.recovery.owner::Owner._holds",
        replace("self._world.draining is not None", "False"),
        _CONDITIONS,
    ),
    one(
        "callers after the first end get a later end",
        f"{_TABLE}::EndCell.write",
        replace(
            "vars(self).setdefault('ending', Ending(event, error))",
            "vars(self).update(ending=Ending(event, error)) or self.ending",
        ),
        f"{_ENDS}::test_of_several_ends_the_first_counts_and_is_reported_once",
        f"{_LIFE}::test_the_first_end_that_is_written_counts_for_every_reader",
        "tests/engine/recovery/test_unchecked_claims.py::"
        "test_a_ledger_ended_by_its_upkeep_lets_nothing_pass_after_the_append_that_gets_the_error",
    ),
    one(
        "an append in flight gets the end that was found at the same time",
        "oncegate.engine.commit.group_commit::GroupCommit._report",
        replace("outcome.in_flight is AppendOutcome.UNKNOWN and outcome.waiting is not AppendOutcome.UNKNOWN", "False"),
        _AT_WORK,
    ),
    one(
        "a drained gateway begins what is new",
        f"{_TABLE}::is_taken",
        replace("callers is Callers.ENDING and (not begins)", "callers is Callers.ENDING"),
        f"{_LIFE}::test_a_namespace_that_serves_takes_calls_and_a_leaving_or_full_one_begins_nothing",
    ),
    one(
        "a ledger whose witness failed between appends serves on",
        "oncegate.ledgers.log.ledger::LogLedger.keep_up",
        delete("self.end.write_beside(LedgerDown(why))"),
        "tests/faults/ledger/test_witness_fails.py::"
        "test_a_witness_that_fails_between_appends_leaves_its_callers_what_the_row_of_ended_has",
    ),
    one(
        "a write of the log that failed ends nothing",
        "oncegate.ledgers.log.writer::LogWriter._known_end",
        delete("self._end.write(end_of(down, beside=beside), down)"),
        "tests/faults/ledger/test_failing_disk.py::test_any_error_of_an_append_takes_the_ledger_down",
    ),
    one(
        "an end that is found while a stopped ledger is let go of is an error of the owner's own",
        "oncegate.engine.recovery.owner::Owner._lost",
        replace("self._namespace is None", "False"),
        f"{_OWNER}::test_an_end_that_is_found_while_a_stopped_ledger_is_let_go_of_is_its_callers_error",
    ),
    one(
        "callers of a namespace that is down get an error that is none of ours when the gateway stops",
        "oncegate.engine.gateway::_refusal",
        replace("state is State.STOPPED and isinstance(cause, OncegateError)", "state is State.STOPPED"),
        f"{_OWNER}::test_a_namespace_that_the_system_keeps_from_opening_is_refused_as_down_when_the_gateway_stops",
    ),
)
