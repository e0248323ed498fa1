"""Planted bugs of a group with one change that the ledger refuses."""

from tests.mutants.edits import delete, insert, replace, replace_statement
from tests.mutants.mutant import Mutant, one

_PART = "tests/engine/commit/test_refused_part.py"
_ALONE = f"{_PART}::test_the_refused_request_gets_the_error_and_all_others_are_written_once"
_SENT = "tests/faults/kafka/test_sent_rows.py"
_SERVED = "tests/faults/kafka/test_served_too_large.py"

REFUSED_PART: tuple[Mutant, ...] = (
    one(
        "a change that the ledger refuses takes its whole group along",
        "oncegate.engine.commit.group_commit::GroupCommit._refuse_part",
        replace("len(group) > 1", "len(group) > 99"),
        f"{_PART}::test_changes_before_the_refused_one_keep_their_decision",
    ),
    one(
        "a refused change stays in the index",
        "oncegate.engine.commit.group_commit::GroupCommit._refuse_part",
        replace("self._undo(group)", "self._undo([])"),
        f"{_PART}::test_a_refused_commit_leaves_its_stages_and_the_index_as_the_ledger_has_it",
    ),
    one(
        "a change undone with another's is answered with retry",
        "oncegate.engine.commit.group_commit::GroupCommit._refuse_part",
        delete("self.undone += culprit is not None"),
        f"{_PART}::test_what_rests_on_the_refused_one_is_decided_without_it",
    ),
    one(
        "a change that depends on a refused one gets its refusal",
        "oncegate.engine.commit.queue::Waiters.fail",
        replace("waiter.task is culprit", "waiter.task is not None"),
        f"{_PART}::test_what_rests_on_the_refused_one_is_decided_without_it",
    ),
    one(
        "a change that was never submitted alone stays decided",
        "oncegate.engine.commit.group_commit::GroupCommit._refuse_part",
        replace("culprit is not None", "1"),
        f"{_PART}::test_after_a_refused_change_of_several_claims_all_retry_because_none_can_be_blamed",
    ),
    one(
        "a group that is refused in part is appended in the wrong order",
        "oncegate.engine.commit.queue::ChangeQueue.refused",
        replace("[*group, *self.changes]", "[*group[::-1], *self.changes]"),
        _ALONE,
    ),
    one(
        "a change undone with others is answered with an immediate retry",
        "oncegate.engine.commit.proven::answers.decorate.proven",
        replace("DECIDED_AGAIN", "0"),
        f"{_PART}::test_a_change_that_is_undone_with_several_others_is_finally_answered_with_retry",
    ),
    one(
        "a ledger on Kafka is full where a topic takes no row so large",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._append",
        delete("self._refuse_part(...)"),
        f"{_SENT}::test_rows_that_a_topic_takes_no_more_are_named_in_their_group_and_the_others_are_taken",
    ),
    one(
        "a topic's lowered limit is not read again",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._suspend",
        delete("self.topics.forget(...)"),
        f"{_SENT}::test_rows_that_a_topic_takes_no_more_are_named_in_their_group_and_the_others_are_taken",
    ),
    one(
        "a refusal in a group differs from a refusal alone",
        "oncegate.ledgers.kafka.rows.user_topics::UserTopics._require_room",
        replace("TooLarge", "BadRequest"),
        f"{_SERVED}::test_a_request_too_large_for_its_topic_gets_413_and_all_others_in_its_group_200",
    ),
    Mutant(
        "a group on Kafka goes with the request that is too large",
        (
            (
                "oncegate.engine.commit.group_commit::GroupCommit._refuse_part",
                replace_statement("self._queue.refused(...)", "self._queue.take_all()"),
            ),
            ("oncegate.engine.commit.group_commit::GroupCommit._refuse_part", delete("return")),
        ),
        (f"{_SERVED}::test_a_request_too_large_for_its_topic_gets_413_and_all_others_in_its_group_200",),
    ),
    one(
        "a gateway's own topic that takes less is not named",
        "oncegate.ledgers.kafka.transactions.sending::Sending.too_large",
        replace(
            (
                "f'not written: a batch of {size_bytes} bytes is more than {topic}-{number} "
                "takes: raise max.message.bytes of topic {topic} (without one "
                "message.max.bytes of the brokers counts), or write smaller records; what is "
                "written without it is taken'"
            ),
            (
                "f'not written: a batch of {size_bytes} bytes is more than {topic}-{number} "
                "takes: raise max.message.bytes of the topic (without one message.max.bytes of "
                "the brokers counts), or write smaller records; what is written without it is taken'"
            ),
        ),
        f"{_SERVED}::test_a_topic_of_the_gateway_with_a_lower_limit_is_named_and_everything_continues_when_it_is_raised",
    ),
    one(
        "a ledger that took no frame so large takes none any more",
        "oncegate.engine.commit.group_commit::GroupCommit._refuse_part",
        insert("self.write_end(Event.UNKNOWN, unknown_end('the ledger', error))", after="self._undo(...)"),
        f"{_SERVED}::test_a_topic_of_the_gateway_with_a_lower_limit_is_named_and_everything_continues_when_it_is_raised",
    ),
)
