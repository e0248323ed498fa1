"""Which entries go to which part of a shard's index."""

import pytest

from oncegate.core.entries.kinds import Claimed, Completed, Entry, Released, Taken
from oncegate.index.shard import ShardIndex

ID = bytes(range(16))
CLAIMED = Claimed(ID, ID, 0, ID, 30_000, 5, ID, b"")


@pytest.mark.parametrize("entry", [CLAIMED, Completed(ID, 6), Released(ID, 6), Taken(ID, 6, ID, b"")])
def test_entries_that_only_the_claims_are_shown_mean_nothing_to_the_other_parts(entry: Entry) -> None:
    index = ShardIndex()
    for part in (index.topics, index.batches):
        assert part.apply(1, entry) is None
    assert index.producers.apply(1, entry, 0) is None
    assert index._set(1, entry) is None


def test_a_claim_is_taken_back_and_settled_by_what_applying_it_gave() -> None:
    index = ShardIndex()
    undo, _ = index.apply(1, CLAIMED, 0)
    assert index.claims.ids == 1
    undo()
    assert (index.claims.ids, index.claims.open_claims) == (0, 0)
    _, settle = index.apply(1, CLAIMED, 0)
    settle()
    assert index.claims.ids == 1
