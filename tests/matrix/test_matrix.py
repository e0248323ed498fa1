"""Some rows of the matrix, each once, in one world; `make matrix` runs all of them, 50 times each."""

from collections.abc import Iterator
from itertools import count

import pytest

from oncegate.ledgers.kafka.partition import Partition
from tests.matrix.catalogue import BY_NAME
from tests.matrix.life import IDS, STEPS
from tests.matrix.report import Counted
from tests.matrix.runs import one, run_in, warm_up
from tests.matrix.world import World, world

pytestmark = [pytest.mark.slow, pytest.mark.server, pytest.mark.timeout(900)]
# One row of each kind (a lost and a late answer, a late record, kills in a transaction, after it and in an opening, a
# paused owner) and the append that is struck: a claim, its completion, rows; in `rows-`, ids, a stage, its commit; in
# `lanes-`, an opening, a proof, the client's own rows.
SHORT = {
    "end-answer-lost": 0,
    "end-late": 1,
    "produce-late": 2,
    "kill-with-end": 0,
    "rows-kill-before-end": 2,
    "open-owned": 0,
    "sleep-before-end": 2,
    "lanes-kill-before-end": 2,
}
_turns = count()


@pytest.fixture(scope="module")
def struck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("matrix")
    with one(folder) as stage, world(*stage, folder) as struck:
        warm_up(struck, BY_NAME["end-answer-lost"])
        yield struck


def run_one(name: str, step: int, struck: World) -> Counted:
    """Runs a row once, at this append, with a number that no other life of this world has."""
    number = STEPS * next(_turns) + step
    return run_in(struck, Counted(BY_NAME[name], asked=1), range(number, number + 1))


@pytest.mark.parametrize(("name", "step"), SHORT.items())
def test_a_gateway_over_kafka_that_is_struck_loses_and_doubles_nothing(name: str, step: int, struck: World) -> None:
    counted = run_one(name, step, struck)
    assert (counted.verdict, counted.wrong) == ("holds", [])


def test_a_writer_that_rewrites_each_attempt_is_seen_to_duplicate(struck: World) -> None:
    counted = run_one("control-kill", 0, struck)
    assert counted.verdict == "seen"
    assert counted.duplicated >= counted.hits > 0


def test_a_reader_that_asks_for_what_is_uncommitted_sees_rows_that_were_aborted(struck: World) -> None:
    topic = Partition(struck.topic, 0)
    before = len(struck.broker.messages(topic)), len(struck.broker.messages(topic, "read_uncommitted"))
    assert run_one("kill-before-end", 2, struck).verdict == "holds"
    after = len(struck.broker.messages(topic)), len(struck.broker.messages(topic, "read_uncommitted"))
    assert after[0] - before[0] == IDS
    assert after[1] - before[1] == 2 * IDS, "the killed gateway's rows, and those of the retry"
