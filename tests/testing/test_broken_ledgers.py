"""The suite is tested too: a broken ledger must fail it, and it must say which promise is broken."""

import pytest

from oncegate.testing import check_ledger
from oncegate.testing.broken.base import Broken
from oncegate.testing.broken.ledgers import BREAKS, broken
from tests.testing.places import memory_place


async def test_a_ledger_that_breaks_nothing_passes() -> None:
    """Without this, the wrapping alone might be what the suite objects to."""
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
