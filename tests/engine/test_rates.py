"""The rate limits of a namespace: accepted requests, delays, and requests that are never refused."""

import pytest

from oncegate.core.claims import Verb
from oncegate.core.errors import QuotaExceeded, SettingsError
from oncegate.engine.counters import QUOTA_BYTES, QUOTA_CLAIMS, QUOTA_IDS, QUOTA_STAGES
from oncegate.engine.counts.counts import Counts
from oncegate.engine.limits import Limits
from oncegate.engine.quotas import NEVER_REFUSED_BYTES, Bucket, Rates
from oncegate.settings import load
from oncegate.testing.clock import FakeClock
from tests.support.memory_gateway import serving, verdicts_of


def test_a_second_s_worth_passes_at_once_and_then_as_much_as_time_brings() -> None:
    clock = FakeClock()
    bucket = Bucket(1_000, clock)
    for _ in range(10):
        assert bucket.wait_ms() == 0
        bucket.take(100)
    assert bucket.wait_ms() == 1
    clock.advance(1)
    assert bucket.wait_ms() == 0
    clock.advance(3_600_000)  # an hour without requests saves up no more than a second
    bucket.wait_ms()
    bucket.take(1_000)
    assert bucket.wait_ms() > 0


def test_a_request_larger_than_a_second_passes_and_later_ones_wait_until_it_is_paid_for() -> None:
    clock = FakeClock()
    bucket = Bucket(10, clock)
    bucket.take(110)
    assert bucket.wait_ms() == 10_001
    clock.advance(10_000)
    assert bucket.wait_ms() == 1
    clock.advance(1)
    assert bucket.wait_ms() == 0


def test_without_a_rate_nothing_waits() -> None:
    bucket = Bucket(0, FakeClock())
    bucket.take(1 << 60)
    assert bucket.wait_ms() == 0


def test_refusals_are_counted_by_quota_and_have_a_delay() -> None:
    counts, clock = Counts(), FakeClock()
    rates = Rates(Limits(ids_per_second=10, bytes_per_second=100), clock, counts.add)
    rates.take_ids(30)
    with pytest.raises(QuotaExceeded, match=r"more than 10 ids a second.*nothing was written") as ids:
        rates.take_ids(1)
    rates.take_bytes(NEVER_REFUSED_BYTES + 1)
    with pytest.raises(QuotaExceeded, match="more than 100 bytes a second"):
        rates.take_bytes(NEVER_REFUSED_BYTES + 1)
    rates.take_bytes(NEVER_REFUSED_BYTES)  # requests that settle a claim
    assert ids.value.extra["retry_after_ms"] == 2_001
    assert [counts.shown(row, None) for row in (QUOTA_IDS, QUOTA_BYTES, QUOTA_CLAIMS, QUOTA_STAGES)] == [1, 1, 0, 0]


async def test_claimed_ids_can_be_claimed_again_completed_and_released_whatever_the_rate() -> None:
    """A refusal has no effect: the ledger has no entry, and the same call is granted once there is room."""
    async with serving(ids_per_second=1) as served:
        granted = await served.claim("a", "b", "c")
        appends = len(served.disk.appends)
        with pytest.raises(QuotaExceeded):
            await served.claim("d", token=2)
        assert len(served.disk.appends) == appends
        await served.settle(Verb.COMPLETE, granted.claim)
        served.clock.advance(2_001)
        assert verdicts_of(await served.claim("d", token=2)) == ["GRANTED"]


def test_a_rate_below_zero_is_no_rate() -> None:
    with pytest.raises(SettingsError, match="ids_per_second and bytes_per_second are 0"):
        load(ids_per_second=-1)
