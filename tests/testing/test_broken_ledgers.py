"""The suite itself is tested: it must fail a broken ledger and name the broken promise."""

import pytest

from oncegate.testing import check_ledger
from oncegate.testing.broken.base import Broken
from oncegate.testing.broken.ledgers import BREAKS, broken
from tests.testing.places import memory_place


async def test_a_ledger_that_breaks_nothing_passes() -> None:
    """Without this, the wrapper itself might be the cause of the suite's failures."""
    await check_ledger(broken(memory_place, Broken))


@pytest.mark.parametrize("breaks", BREAKS, ids=lambda breaks: breaks.__name__)
async def test_the_suite_catches_a_ledger_that(breaks) -> None:
    with pytest.raises(AssertionError, match="a ledger must: "):
        await check_ledger(broken(memory_place, breaks))


@pytest.mark.parametrize("breaks", BREAKS, ids=lambda breaks: breaks.__name__)
async def test_the_check_made_for_it_catches_a_ledger_that(breaks) -> None:
    async with broken(memory_place, breaks)() as place:
        with pytest.raises(AssertionError, match="a ledger must: ") as caught:
            await BREAKS[breaks](place)
    print(breaks.__name__, "->", caught.value)
