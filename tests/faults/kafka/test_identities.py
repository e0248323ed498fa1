"""Topic ids: concurrent questions share one request, and a question never gets an answer to an earlier request."""

import asyncio
import gc
from collections.abc import Collection, Mapping

from oncegate.ledgers.kafka.rows.marks import Identities
from tests.support.memory_gateway import run_ready_tasks

OLD, NEW = bytes(15) + b"1", bytes(15) + b"2"


class Brokers:
    """Answers each question when a test releases it, with the state at the time of the question."""

    def __init__(self) -> None:
        self.now = OLD
        self.asked: list[set[str]] = []
        self.answers: list[asyncio.Event] = []

    async def ids(self, topics: Collection[str]) -> Mapping[str, bytes]:
        self.asked.append(set(topics))
        self.answers.append(answer := asyncio.Event())
        found = dict.fromkeys(set(topics) - {"gone"}, self.now)
        await answer.wait()
        return found


async def test_a_request_that_comes_while_brokers_are_asked_has_an_answer_from_after_it() -> None:
    brokers = Brokers()
    identities = Identities(brokers.ids)
    first = asyncio.create_task(identities.of(["a"]))
    await run_ready_tasks()
    brokers.now = NEW
    later = [asyncio.create_task(identities.of([topic])) for topic in ("a", "b", "gone")]
    await run_ready_tasks()
    assert brokers.asked == [{"a"}], "one question at a time"
    brokers.answers[0].set()
    await run_ready_tasks()
    assert brokers.asked == [{"a"}, {"a", "b", "gone"}], "one for all that came meanwhile"
    brokers.answers[1].set()
    assert await first == {"a": OLD}
    assert await asyncio.gather(*later) == [{"a": NEW}, {"b": NEW}, {}]


async def test_an_abandoned_question_fails_no_other_caller_and_the_next_one_is_asked() -> None:
    unheard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    answers: list[asyncio.Future[Mapping[str, bytes]]] = []

    async def ids(_: Collection[str]) -> Mapping[str, bytes]:
        answers.append(answer := asyncio.get_running_loop().create_future())
        return await answer

    identities = Identities(ids)
    given_up = asyncio.create_task(identities.of(["a"]))
    await run_ready_tasks()
    given_up.cancel()
    await run_ready_tasks()
    later = asyncio.create_task(identities.of(["a"]))
    answers[0].set_exception(OSError("no broker answers"))
    await run_ready_tasks()
    answers[1].set_result({"a": NEW})
    assert await later == {"a": NEW}
    del answers[:], given_up
    gc.collect()
    assert not unheard
