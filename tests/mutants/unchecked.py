"""Planted bugs of the answers to claims while the ledger is down."""

from tests.mutants.edits import delete, replace, replace_statement, without
from tests.mutants.mutant import Mutant, one

_DOORS = "tests/transports/test_policies.py"
_UNCHECKED_CLAIMS = "tests/engine/recovery/test_unchecked_claims.py"
_SPARK = "tests/client/spark/test_unchecked.py"
_UNCHECKED = "tests/engine/usecases/test_unchecked.py"

UNCHECKED: tuple[Mutant, ...] = (
    one(
        "how much was passed is nowhere before the ledger is back",
        "oncegate.engine.recovery.owner::Owner._keep_up",
        delete("self._unchecked_claims.tell(...)"),
        f"{_UNCHECKED_CLAIMS}::test_the_log_has_the_count_at_once_and_each_minute_while_it_grows",
    ),
    one(
        "each look writes a line of what was passed",
        "oncegate.engine.recovery.unchecked_claims::UncheckedClaims.tell",
        replace("tally.ids != self._told_ids and now_ms >= self._told_again_ms", "tally.ids != self._told_ids"),
        f"{_UNCHECKED_CLAIMS}::test_the_log_has_the_count_at_once_and_each_minute_while_it_grows",
    ),
    one(
        "an unchecked id is granted as if it had been checked",
        "oncegate.engine.policies.unchecked::_PASSED",
        replace("Verdict.GRANTED | Flag.UNCHECKED", "Verdict.GRANTED"),
        f"{_UNCHECKED}::test_known_and_new_ids_alike_are_granted_and_marked_and_nothing_is_held",
    ),
    one(
        "claims pass unchecked without the policy",
        "oncegate.engine.policies.unchecked::may_pass",
        replace("is_durable and settings.on_ledger_down is OnLedgerDown.PASS_MARKED", "is_durable"),
        f"{_UNCHECKED}::test_by_default_nothing_passes",
    ),
    one(
        "claims pass by a setting that the ledger may not have",
        "oncegate.engine.policies.unchecked::may_pass",
        replace(
            "is_durable and settings.on_ledger_down is OnLedgerDown.PASS_MARKED",
            "settings.on_ledger_down is OnLedgerDown.PASS_MARKED",
        ),
        f"{_UNCHECKED}::test_a_setting_that_was_not_durable_when_the_ledger_failed_lets_nothing_pass",
    ),
    one(
        "unchecked claims are not counted",
        "oncegate.engine.policies.unchecked::Unchecked.claim",
        delete("self.counts.add(...)"),
        f"{_DOORS}::test_every_door_grants_all_unchecked_while_the_ledger_is_down_and_all_else_is_refused",
    ),
    one(
        "unchecked claims are not recorded in the ledger",
        "oncegate.engine.recovery.unchecked_claims::UncheckedClaims.end",
        replace_statement("self.note(...)", "self._tally = Tally()"),
        f"{_UNCHECKED}::test_unchecked_grants_are_recorded_once_with_number_time_and_caller",
    ),
    one(
        "a note that the ledger has lost is not made again",
        "oncegate.engine.recovery.unchecked_claims::UncheckedClaims._note",
        delete("self._tally.add(...)"),
        f"{_UNCHECKED}::test_a_note_that_the_ledger_loses_is_made_again",
    ),
    one(
        "a request from before is passed unchecked when the ledger is back",
        "oncegate.engine.policies.unchecked::Unchecked.claim",
        replace("self.is_over()", "False"),
        f"{_UNCHECKED}::test_a_request_that_came_while_it_was_down_is_not_passed_once_it_is_back",
    ),
    one(
        "a request from one outage is passed in the next, under another setting",
        "oncegate.engine.recovery.unchecked_claims::UncheckedClaims.prepare",
        replace("lambda: self._is_over() or self._unchecked is not made", "self._is_over"),
        f"{_UNCHECKED_CLAIMS}::test_a_request_of_one_outage_is_not_passed_in_the_next_which_is_set_otherwise",
    ),
    one(
        "claims pass unchecked by a policy from before the gateway stood by for another",
        "oncegate.engine.recovery.owner::Owner._open",
        delete("self._unchecked_claims.stop()"),
        f"{_UNCHECKED_CLAIMS}::test_a_gateway_that_was_a_standby_lets_nothing_pass_when_following_breaks",
    ),
    one(
        "claims pass unchecked by what was set before another owner was met",
        "oncegate.engine.recovery.owner::Owner._take",
        delete("self._unchecked_claims.stop()"),
        f"{_UNCHECKED_CLAIMS}::test_who_meets_another_owner_while_opening_lets_nothing_pass_any_more",
    ),
    one(
        "a bug of the gateway's own lets claims pass unchecked",
        "oncegate.engine.recovery.owner::Owner._take",
        replace("ENDS[event].effect.is_down", "isinstance(error, LedgerDown)"),
        f"{_UNCHECKED_CLAIMS}::test_a_bug_of_the_gateways_own_lets_nothing_pass_while_the_ledger_can_be_opened",
    ),
    one(
        "a bug in the upkeep of a ledger on Kafka ends nothing",
        "oncegate.ledgers.server.ledgers::ServerLedgers._keep_one_up",
        delete("ledger.end_beside(LedgerDown(why))"),
        "tests/faults/kafka/test_ledger_damage.py::test_an_upkeep_that_raises_is_reported_by_the_next_append",
    ),
    one(
        "an upkeep that fails for long ends nothing",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._fall_behind",
        delete("self.end_beside(LedgerDown(why))"),
        "tests/faults/kafka/test_ledger_damage.py::test_an_upkeep_that_fails_while_appends_succeed_ends_the_ownership",
    ),
    Mutant(
        "an opening that fails for want of memory lets claims pass unchecked",
        (
            ("oncegate.engine.recovery.owner::Owner._failure", replace_statement("return Event.SHORT", "pass")),
            ("oncegate.engine.recovery.owner::Owner._failure", replace("isinstance(error, LedgerDown)", "True")),
        ),
        (
            f"{_UNCHECKED_CLAIMS}::test_a_ledger_that_cannot_be_opened_for_a_bug_or_for_want_of_memory_lets_nothing_pass",
        ),
    ),
    one(
        "nothing passes where the ledger cannot be opened after its shard ended otherwise",
        "oncegate.engine.recovery.owner::Owner._failure",
        replace("Event.UNREACHED", "Event.SHORT"),
        f"{_UNCHECKED_CLAIMS}::test_claims_pass_once_the_ledger_cannot_be_opened_whatever_ended_it_before",
    ),
    one(
        "long names of callers are longer than a note takes",
        "oncegate.engine.policies.unchecked::Tally.note",
        replace("cut_name(', '.join(named), max(0, name_bytes - len(counted)))", "', '.join(named)"),
        f"{_UNCHECKED_CLAIMS}::test_unchecked_grants_are_recorded_whatever_callers_are_named",
    ),
    one(
        "names of callers are kept without an end",
        "oncegate.engine.policies.unchecked::Tally._know",
        replace("sorted(callers - self.callers)[:room]", "sorted(callers)[:max(room, 1)]"),
        f"{_UNCHECKED_CLAIMS}::test_no_more_names_are_kept_than_may_be_reported",
    ),
    one(
        "unchecked claims are forgotten when their record fails unexpectedly",
        "oncegate.engine.recovery.unchecked_claims::UncheckedClaims._note",
        replace("Exception", "OSError"),
        f"{_UNCHECKED_CLAIMS}::test_a_record_that_fails_unexpectedly_is_logged_once_and_written_again",
    ),
    one(
        "in shadow mode an unchecked claim gets a would-be verdict",
        "oncegate.engine.policies.unchecked::Unchecked.claim",
        replace("self.in_shadow", "not self.limits"),
        f"{_UNCHECKED}::test_in_shadow_mode_every_id_passes_and_gets_its_would_be_verdict",
    ),
    one(
        "JSON in shadow mode omits that claims were unchecked",
        "oncegate.transports.http.answers::_SHADOWED",
        replace(
            ("messages.VerdictMessage(**messages.verdict_members(BY_BYTE[told]), shadow_verdict=row.verdict.name)"),
            ("messages.VerdictMessage(verdict=Verdict.GRANTED.name, shadow_verdict=row.verdict.name)"),
        ),
        f"{_DOORS}::test_every_transport_grants_all_unchecked_in_shadow_mode_with_the_would_be_verdict",
    ),
    one(
        "a repeated id is recognized by half of its fingerprint",
        "oncegate.engine.policies.unchecked::_firsts",
        replace("(ids[some[1:]] != ids[some[:-1]]).any(axis=1)", "ids[some[1:], 0] != ids[some[:-1], 0]"),
        f"{_UNCHECKED}::test_ids_of_any_request_are_distinguished_as_by_a_dict",
    ),
    one(
        "whole rows of a large unchecked claim are sorted on the event loop",
        "oncegate.engine.policies.unchecked::_firsts",
        replace(
            "np.arange(len(ids))",
            ("np.unique(ids, axis=0, return_index=True, return_inverse=True)[1] * 0 + np.arange(len(ids))"),
        ),
        f"{_UNCHECKED}::test_a_large_request_does_not_hold_the_loop_for_a_sort_of_its_rows",
    ),
    one(
        "claims pass unchecked beside another owner who has served since",
        "oncegate.engine.policies.unchecked::Unchecked.require",
        delete("self.marks.require(...)"),
        f"{_UNCHECKED}::test_requests_refused_by_a_shard_are_refused",
    ),
    one(
        "the client takes an unchecked grant for a checked one",
        "oncegate_spark.protocol.packed::_UNCHECKED",
        replace("_those('GRANTED', unchecked=True)", "b''"),
        "tests/client/protocol/test_codecs.py::test_unchecked_ids_are_granted_and_marked_as_unchecked",
    ),
    one(
        "a delivery writes unchecked ids without asking its sink",
        "oncegate_spark.delivery.deliver::Delivery._written",
        without("*claimed.unchecked"),
        "tests/faults/redis/test_unchecked.py",
    ),
    one(
        "a Spark task counts unchecked ids as checked",
        "oncegate_spark.spark.writers.claim_loop::Settler._written",
        delete("self.progress.unchecked += claimed.verdicts.unchecked_count"),
        f"{_SPARK}::test_unchecked_rows_are_written_and_counted_separately_and_the_driver_warns",
    ),
    one(
        "a Spark task writes unchecked ids without asking a sink that can answer",
        "oncegate_spark.spark.writers.settler::AskingSettler.hand_over",
        replace("pc.or_(verdicts.in_doubt, verdicts.unchecked)", "verdicts.in_doubt"),
        f"{_SPARK}::test_a_sink_that_can_be_asked_is_asked_about_unchecked_rows",
    ),
    Mutant(
        "the index of a shard that is lost stays in memory beside the next one",
        (
            ("oncegate.engine.recovery.owner::Owner._tell", replace("self._reason", "(self._reason, self._kept)")),
            (
                "oncegate.engine.recovery.owner::Owner._tell",
                replace("str(error) or repr(error)", "(str(error), error)"),
            ),
        ),
        (f"{_UNCHECKED}::test_the_index_of_a_shard_that_is_lost_is_let_go_while_claims_pass",),
    ),
)
