"""The table of counters: every answer is counted, and every count is exported."""

import numpy as np
import pytest

from oncegate.core.claims import Action
from oncegate.core.producers import ProducerAction as SequenceAction
from oncegate.core.verdicts import Flag, Verdict
from oncegate.engine.counters import COUNTERS, description
from oncegate.engine.counts.counts import Counts
from oncegate.index.shard import ShardIndex
from oncegate.index.table.arrays import SAME_INDEX
from tests.support.memory_gateway import serving

REFUSED = {SequenceAction.OUT_OF_ORDER}
# Answers of look-ups only, which are counted as a whole because they write nothing.
TOLD_ONLY = (Action.FREE, Action.LEFT)
COUNTED = [action for action in Action if action not in TOLD_ONLY]


def test_every_action_is_counted_by_one_row() -> None:
    ids = [action for row in COUNTERS for action in row.actions]
    sequences = [action for row in COUNTERS for action in row.sequence_actions]
    assert sorted(ids) == sorted([*COUNTED, SAME_INDEX])
    assert sorted(sequences) == sorted(set(SequenceAction) - REFUSED), "a refused request is none of them"


@pytest.mark.parametrize("times", [1, 20], ids=["few ids", "many ids"])
def test_few_ids_are_counted_as_many_are(times: int) -> None:
    actions = [*COUNTED, SAME_INDEX, Action.DUPLICATE] * times
    verdicts = [*[Verdict.GRANTED] * (len(COUNTED) + 1), Verdict.DUPLICATE | Flag.OWN] * times
    counts = Counts()
    counts.add_ids(np.array(actions, np.uint8), np.array(verdicts, np.uint8), None, None)
    found = {name: count for name, count in counts.all(ShardIndex()).items() if count}
    assert found == {
        "granted": 2 * times,
        "granted_again": times,
        "duplicates": times,
        "own_duplicates": times,
        "conflicts": times,
        "busy": times,
        "held": times,
        "in_doubt": times,
        "past_horizon": times,
        "same": 2 * times,
        "duplicates_upstream": times,
    }


async def test_a_shard_shows_every_counter_of_the_table_in_its_order() -> None:
    async with serving() as served:
        assert list(served.shard.counters()) == [row.name for row in COUNTERS]


def test_documents_list_every_counter_with_its_unit_and_meaning() -> None:
    for row in COUNTERS:
        assert f"{row.name} ({row.unit}): {row.meaning}" in description()
