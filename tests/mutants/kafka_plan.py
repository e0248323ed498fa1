"""Planted bugs of what brokers are asked for, and of what they refuse."""

from tests.mutants.mutant import Mutant, one

_KAFKA = "service/oncegate/ledgers/kafka"
_PLAN = "tests/faults/kafka/test_plan.py"
_REFUSALS = "tests/faults/kafka/test_refusals.py"
_DAMAGE = "tests/faults/kafka/test_ledger_damage.py"

KAFKA_PLAN: tuple[Mutant, ...] = (
    one(
        "a topic that holds records is taken for one that was made for a namespace",
        f"{_KAFKA}/ledgers.py",
        "for one in found if await readers.bounds(one) != (0, 0)}",
        "for one in found if await readers.bounds(one) == ()}",
        f"{_DAMAGE}::test_topics_that_the_list_does_not_know_are_not_taken_over",
    ),
    one(
        "topics that are there are made all the same",
        f"{_KAFKA}/topics.py",
        "if one.name not in there]\n        if not missing",
        "]\n        if not missing",
        f"{_PLAN}::test_who_runs_its_lines_has_a_gateway_that_serves_and_may_make_no_topic",
    ),
    one(
        "the plan forgets the right to shorten topics",
        f"{_KAFKA}/plan/needs.py",
        '"Read", "Write", "Delete")),',
        '"Read", "Write")),',
        f"{_PLAN}::test_these_rights_are_enough_to_compact_and_to_shorten_the_topics",
    ),
    one(
        "a reader is told the right of a writer",
        f"{_KAFKA}/reading.py",
        "Watch(settings, READING)",
        "Watch(settings)",
        f"{_REFUSALS}::test_a_reader_is_told_the_right_that_it_lacks",
    ),
    one(
        "files of passwords and keys are read once",
        f"{_KAFKA}/watch.py",
        " is None or not credentials.newer_than(tried):",
        " is None or True:",
        f"{_REFUSALS}::test_a_password_that_is_changed_in_its_file_counts_without_a_start",
        f"{_REFUSALS}::test_a_ledger_outlives_a_change_of_its_password",
        "tests/faults/kafka/test_certificates.py::test_a_certificate_that_is_changed_in_its_file_counts_without_a_start",
    ),
    one(
        "what aiokafka stumbles over in a login is let through",
        f"{_KAFKA}/watch.py",
        "        except (ValueError, LookupError, AssertionError) as error:\n",
        "        except ZeroDivisionError as error:\n",
        f"{_REFUSALS}::test_an_answer_to_a_password_that_is_none_is_told_in_one_line",
    ),
    one(
        "a batch that is too large is told as any that is refused",
        "service/oncegate/ledgers/kafka/transactions/guard.py",
        "        if isinstance(error, MessageSizeTooLargeError):\n",
        "        if False:\n",
        f"{_REFUSALS}::test_a_batch_that_a_topic_does_not_take_is_told_with_the_limit_and_the_others_are_taken",
    ),
    one(
        "a topic without an answer is named beside one that refuses a size",
        "service/oncegate/ledgers/kafka/transactions/sending.py",
        "list(dict.fromkeys(partition for partition, _ in refused))",
        "self.culprits()",
        f"{_REFUSALS}::test_a_topic_that_has_not_answered_is_not_named_beside_one_that_refuses_a_size",
    ),
    one(
        "a check does not say which right is missing",
        f"{_KAFKA}/plan/look.py",
        "if one not in operations]",
        "if False]",
        f"{_PLAN}::test_a_check_names_the_setting_and_the_right_that_are_not_as_they_have_to_be",
    ),
)
