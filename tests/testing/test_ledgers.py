"""Every ledger keeps every promise of the port."""

import pytest

from oncegate.core.errors import OncegateError
from oncegate.ledgers import SCHEMES
from oncegate.testing.ledger_checks import CHECKS, nothing_is_answered_before_it_is_durable
from tests.support.crash_disk import RecordingDisk
from tests.testing.places import log_place, memory_place, power_place

PLACES = {"memory": memory_place, "log": log_place}
# Tested in tests/faults/kafka/test_conformance.py, on a broker, and tests/faults/redis/test_conformance.py.
ON_SERVERS = {"kafka", "redis", "rediss"}


def test_every_scheme_has_a_place() -> None:
    assert set(PLACES) | ON_SERVERS == set(SCHEMES)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("scheme", PLACES)
async def test_the_ledger_keeps_its_promises(scheme, check) -> None:
    async with PLACES[scheme]() as place:
        await check(place)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_log_keeps_its_promises_when_the_power_fails(check) -> None:
    """A kill does not reveal a missing sync; a power failure does."""
    async with power_place() as place:
        await check(place)


async def test_the_suite_catches_a_log_that_does_not_sync(monkeypatch) -> None:
    monkeypatch.setattr(RecordingDisk, "sync", lambda disk, fd: None)
    async with power_place() as place:
        with pytest.raises((AssertionError, OncegateError)):
            await nothing_is_answered_before_it_is_durable(place)
