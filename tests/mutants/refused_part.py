"""Planted bugs of a group of which the ledger refuses one change."""

from tests.mutants.mutant import Mutant, one

_COMMIT = "service/oncegate/engine/commit"
_GROUP = f"{_COMMIT}/group_commit.py"
_PART = "tests/engine/commit/test_refused_part.py"
_ALONE = f"{_PART}::test_the_request_that_is_refused_is_told_so_and_all_others_are_written_once"
_SENT = "tests/faults/kafka/test_sent_rows.py"
_SERVED = "tests/faults/kafka/test_served_too_large.py"

REFUSED_PART: tuple[Mutant, ...] = (
    one(
        "a change that the ledger refuses takes its whole group along",
        _GROUP,
        "        if len(group) > 1:\n            self._begun",
        "        if len(group) > 99:\n            self._begun",
        f"{_PART}::test_what_came_before_the_refused_one_keeps_its_decision",
    ),
    one(
        "what was refused stays in the index",
        _GROUP,
        "        self._undo(group)\n        culprit =",
        "        self._undo([])\n        culprit =",
        f"{_PART}::test_a_refused_commit_leaves_its_stages_and_the_index_as_the_ledger_has_it",
    ),
    one(
        "what is undone with another's change is told to retry",
        _GROUP,
        "        self.undone += culprit is not None\n",
        "",
        f"{_PART}::test_what_rests_on_the_refused_one_is_decided_without_it",
    ),
    one(
        "who rests on a change that is refused is told its refusal",
        f"{_COMMIT}/waiters.py",
        "culprit is not None and task is culprit\n",
        "culprit is not None and task is not None\n",
        f"{_PART}::test_what_rests_on_the_refused_one_is_decided_without_it",
    ),
    one(
        "a change that nobody alone submitted is decided for ever",
        _GROUP,
        "        self.undone += culprit is not None\n",
        "        self.undone += 1\n",
        f"{_PART}::test_a_change_of_several_claims_is_told_to_be_sent_again_for_nobody_can_be_named",
    ),
    one(
        "a group that is refused in part is appended in the wrong order",
        f"{_COMMIT}/change_queue.py",
        "        self._changes = [*group, *self._changes]\n",
        "        self._changes = [*group[::-1], *self._changes]\n",
        _ALONE,
    ),
    one(
        "what is undone with others is told to retry at once",
        f"{_COMMIT}/proven.py",
        "        for _ in range(DECIDED_AGAIN):\n",
        "        for _ in range(0):\n",
        f"{_PART}::test_who_is_undone_with_one_after_another_is_told_to_retry_in_the_end",
    ),
    one(
        "a ledger on Kafka is full where a topic takes no row so large",
        "service/oncegate/ledgers/kafka/shard/ledger.py",
        "                self._refuse_part(error, ranges)\n",
        "",
        f"{_SENT}::test_rows_that_a_topic_takes_no_more_are_named_in_their_group_and_the_others_are_taken",
    ),
    one(
        "a topic that has lowered its limit is not asked about anew",
        "service/oncegate/ledgers/kafka/shard/ledger.py",
        "                self._topics.forget(refused)\n",
        "",
        f"{_SENT}::test_rows_that_a_topic_takes_no_more_are_named_in_their_group_and_the_others_are_taken",
    ),
    one(
        "who is found in a group is told other than who is refused alone",
        "service/oncegate/ledgers/kafka/rows/user_topics.py",
        '                    raise TooLarge(\n                        f"topic {topic} has {name}',
        '                    raise BadRequest(\n                        f"topic {topic} has {name}',
        f"{_SERVED}::test_who_brings_what_its_topic_takes_no_more_is_told_413_and_all_others_in_its_group_200",
    ),
    one(
        "a group on Kafka goes with the request that is too large",
        _GROUP,
        "            self._queue.refused(group, error)\n            return\n",
        "            self._queue.take_all()\n",
        f"{_SERVED}::test_who_brings_what_its_topic_takes_no_more_is_told_413_and_all_others_in_its_group_200",
    ),
    one(
        "a gateway's own topic that takes less is not named",
        "service/oncegate/ledgers/kafka/transactions/sending.py",
        '            f"max.message.bytes of topic {topic} (without',
        '            f"max.message.bytes of the topic (without',
        f"{_SERVED}::test_a_topic_of_the_gateway_that_takes_less_is_named_and_all_goes_on_when_it_is_raised",
    ),
    one(
        "a ledger that took no frame so large takes none any more",
        _GROUP,
        "        self._undo(group)\n        culprit =",
        '        self._undo(group)\n        self.die(unknown_end("the ledger", error))\n        culprit =',
        f"{_SERVED}::test_a_topic_of_the_gateway_that_takes_less_is_named_and_all_goes_on_when_it_is_raised",
    ),
)
