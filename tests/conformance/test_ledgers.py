"""Every ledger keeps every promise of the port."""

import pytest

from oncegate.ledgers import SCHEMES
from oncegate.testing.ledger_checks import CHECKS
from tests.conformance.places import log_place, memory_place

PLACES = {"memory": memory_place, "log": log_place}


def test_every_scheme_has_a_place_here() -> None:
    assert set(PLACES) == set(SCHEMES)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("scheme", PLACES)
async def test_the_ledger_keeps_its_promises(scheme, check) -> None:
    async with PLACES[scheme]() as place:
        await check(place)
