"""Planted bugs of the requirements for brokers, and of the refusals."""

from tests.mutants.edits import replace, without
from tests.mutants.mutant import Mutant, one

_PLAN = "tests/faults/kafka/test_plan.py"
_REFUSALS = "tests/faults/kafka/test_refusals.py"
_DAMAGE = "tests/faults/kafka/test_ledger_damage.py"

KAFKA_PLAN: tuple[Mutant, ...] = (
    one(
        "a topic that holds records is taken for one that was made for a namespace",
        "oncegate.ledgers.kafka.ledgers::KafkaLedgers._used_topics",
        replace("await readers.bounds(one) != (0, 0)", "await readers.bounds(one) == ()"),
        f"{_DAMAGE}::test_topics_that_the_list_does_not_know_are_not_taken_over",
    ),
    one(
        "topics that are there are made all the same",
        "oncegate.ledgers.kafka.topics::Topics.make",
        replace(
            ("[one for one in wanted(self._address, names, configs, partitions) if one.name not in there]"),
            "[one for one in wanted(self._address, names, configs, partitions)]",
        ),
        f"{_PLAN}::test_who_runs_its_lines_has_a_gateway_that_serves_and_may_make_no_topic",
    ),
    one(
        "the plan forgets the right to shorten topics",
        "oncegate.ledgers.kafka.plan::needs_of",
        without("'Delete'"),
        f"{_PLAN}::test_these_rights_are_enough_to_compact_and_to_shorten_the_topics",
    ),
    one(
        "a client starts without a broker of its cluster",
        "oncegate.ledgers.kafka.client::Client.bootstrap",
        replace("self.cluster.brokers()", "True"),
        "tests/faults/kafka/test_connection.py::"
        "test_a_producer_whose_brokers_name_none_of_their_cluster_can_be_started_again",
    ),
    one(
        "a reader is asked for a writer's permission",
        "oncegate.ledgers.kafka.reading::Reader.__init__",
        without("READING"),
        f"{_REFUSALS}::test_a_reader_gets_an_error_with_the_missing_right",
    ),
    one(
        "files of passwords and keys are read once",
        "oncegate.ledgers.kafka.client::Client._session",
        replace("not credentials.newer_than(tried)", "True"),
        f"{_REFUSALS}::test_a_password_that_is_changed_in_its_file_counts_without_a_start",
        f"{_REFUSALS}::test_a_ledger_outlives_a_change_of_its_password",
        "tests/faults/kafka/test_certificates.py::test_a_certificate_that_is_changed_in_its_file_counts_without_a_start",
    ),
    one(
        "what aiokafka stumbles over in a login is let through",
        "oncegate.ledgers.kafka.client::Session._do_sasl_handshake",
        replace("(ValueError, LookupError, AssertionError)", "ZeroDivisionError"),
        f"{_REFUSALS}::test_an_answer_to_an_invalid_password_is_reported_in_one_line",
    ),
    one(
        "a batch that is too large gets an unspecific refusal",
        "oncegate.ledgers.kafka.transactions.guard::Guard._not_written",
        replace("isinstance(error, MessageSizeTooLargeError)", "False"),
        f"{_REFUSALS}::test_a_batch_refused_by_a_topic_is_reported_with_the_limit_and_the_others_are_accepted",
    ),
    one(
        "a topic without an answer is named beside one that refuses a size",
        "oncegate.ledgers.kafka.transactions.sending::Sending.too_large",
        replace("list(dict.fromkeys((partition for partition, _ in refused)))", "self.culprits()"),
        f"{_REFUSALS}::test_a_topic_that_has_not_answered_is_not_named_beside_one_that_refuses_a_size",
    ),
    one(
        "a check does not name the missing permission",
        "oncegate.ledgers.kafka.plan::_held",
        replace("one not in operations", "False"),
        f"{_PLAN}::test_a_check_names_the_setting_and_the_right_that_are_not_as_they_have_to_be",
    ),
)
