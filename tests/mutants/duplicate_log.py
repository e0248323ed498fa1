"""Planted bugs of duplicates that are told one by one: what is said, and what it may cost."""

from tests.mutants.mutant import Mutant, one

_LOG = "service/oncegate/engine/counts/duplicate_log.py"
_TEST = "tests/engine/test_duplicate_log.py"

DUPLICATE_LOG: tuple[Mutant, ...] = (
    one(
        "every duplicate is a record, however many come",
        _LOG,
        "        return 0 if self._rate.wait_ms() else min(self._per_second, QUEUED_MAX - self._queued)\n",
        "        return QUEUED_MAX - self._queued\n",
        f"{_TEST}::test_more_than_the_rate_takes_is_left_out_and_counted_and_answered_all_the_same",
    ),
    one(
        "the queue grows while nothing is written",
        _LOG,
        "        if seen is None or self._queued + described > QUEUED_MAX:\n",
        "        if seen is None:\n",
        f"{_TEST}::test_requests_that_are_answered_at_once_fill_the_queue_no_further",
    ),
    one(
        "what the topic refused counts as written",
        _LOG,
        "            self.outcomes[FAILED] += len(records)\n            if not",
        "            self.outcomes[WRITTEN] += len(records)\n            if not",
        f"{_TEST}::test_what_the_topic_refuses_is_counted_and_told_once_and_later_records_are_written",
    ),
    one(
        "a topic that refuses once is written never again",
        _LOG,
        "            await self._clock.sleep_ms(PAUSE_MS)\n        except",
        "            raise\n        except",
        f"{_TEST}::test_what_the_topic_refuses_is_counted_and_told_once_and_later_records_are_written",
    ),
    one(
        "a request that waits keeps what all of it was",
        "service/oncegate/index/claims/firsts.py",
        "        seen = _seen(store, ids[at[few]], causes[few].copy(), rows, archive, wall_ms)\n",
        "        seen = _seen(store, ids[at][few], causes[few], rows, archive, wall_ms)\n",
        f"{_TEST}::test_a_large_request_is_written_in_pieces_and_keeps_no_more_than_is_told_of_it",
    ),
    one(
        "a large request is written at once",
        _LOG,
        "len(self._queue[0][1].ids) <= WRITTEN_AT_ONCE:\n",
        "len(self._queue[0][1].ids) <= QUEUED_MAX:\n",
        f"{_TEST}::test_a_large_request_is_written_in_pieces_and_keeps_no_more_than_is_told_of_it",
    ),
    one(
        "what is queued at a stop is lost",
        _LOG,
        "        await asyncio.wait([self._task], timeout=CLOSING_MS / 1_000)\n",
        "",
        f"{_TEST}::test_a_gateway_that_closes_writes_what_is_queued",
    ),
    one(
        "the first is where the duplicate is",
        "service/oncegate/index/claims/firsts.py",
        "    positions[held], topics[held] = rows.holders.position[found[held]], rows.topic[found[held]]\n",
        "    positions[held], topics[held] = rows.holders.position.max(), rows.topic[found[held]]\n",
        f"{_TEST}::test_a_record_says_why_how_old_and_where_the_first_is_and_neither_id_nor_claim",
    ),
    one(
        "an id that left memory is as old as nothing",
        "service/oncegate/index/claims/firsts.py",
        "        cold = ~held & (archives >= 0)\n",
        "        cold = held & (archives >= 0)\n",
        f"{_TEST}::test_causes_and_topics_are_those_of_each_id_also_where_its_first_left_memory",
    ),
    one(
        "a ledger without brokers takes the topic's name and tells nothing",
        "service/oncegate/ledgers/__init__.py",
        '    if scheme != "kafka":\n        raise BadRequest(\n            f"duplicates_topic',
        '    if scheme == "redis":\n        raise BadRequest(\n            f"duplicates_topic',
        "tests/faults/kafka/test_duplicates_topic.py::test_a_ledger_without_brokers_refuses_the_setting_by_name",
    ),
)
