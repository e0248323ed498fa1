"""Room is reserved before a body is read: in requests and in bytes. Limits of one request come before any effect."""

import pytest

from oncegate.core.errors import BadRequest, Overloaded, QuotaExceeded, TooLarge
from oncegate.engine.admission import Admission
from oncegate.engine.limits import Limits
from tests.support.held import said, serving

SMALL = Limits(requests_in_flight=2, bytes_in_flight=100, body_bytes=60)


def test_one_request_more_than_may_be_in_flight_is_refused_at_once() -> None:
    admission = Admission(SMALL)
    with admission.hold(1), admission.hold(1):
        with pytest.raises(Overloaded, match="2 requests"), admission.hold(1):
            pass
        assert admission.requests == 2
    assert (admission.requests, admission.size_bytes) == (0, 0)


def test_bytes_are_reserved_before_they_are_read() -> None:
    admission = Admission(SMALL)
    with admission.hold(60):
        with pytest.raises(Overloaded, match="60 bytes in flight, no room for 41"), admission.hold(41):
            pass
        with admission.hold(40):
            assert admission.size_bytes == 100


def test_a_body_over_the_limit_is_refused_for_good_and_not_for_now() -> None:
    admission = Admission(SMALL)
    with admission.hold(60), pytest.raises(TooLarge), admission.hold(61):
        pass


def test_room_is_given_back_when_a_request_fails() -> None:
    admission = Admission(SMALL)
    with pytest.raises(ValueError, match="broken"), admission.hold(50):
        raise ValueError("broken")
    assert (admission.requests, admission.size_bytes) == (0, 0)


async def test_too_many_ids_are_refused_before_any_effect() -> None:
    async with serving(ids_per_request=2) as served:
        with pytest.raises(TooLarge, match="3 ids"):
            await served.claim("a", "b", "c")
        assert said(await served.claim("a", "b", token=2)) == ["GRANTED", "GRANTED"]


@pytest.mark.parametrize("lease_ms", [0, 999, 900_001])
async def test_a_lease_out_of_bounds_is_refused(lease_ms: int) -> None:
    async with serving() as served:
        with pytest.raises(BadRequest, match="lease"):
            await served.claim("a", lease_ms=lease_ms)
        assert served.disk.appends == []


@pytest.mark.parametrize("lease_ms", [1_000, 900_000])
async def test_the_shortest_and_the_longest_lease_are_given(lease_ms: int) -> None:
    async with serving() as served:
        assert (await served.claim("a", lease_ms=lease_ms)).lease_ms == lease_ms


async def test_more_open_claims_than_may_be_are_refused_but_duplicates_and_busy_are_not() -> None:
    async with serving(open_claims=1) as served:
        await served.claim("a")
        with pytest.raises(QuotaExceeded, match="1 claims of this namespace are open"):
            await served.claim("b", token=2)
        assert said(await served.claim("a", token=2)) == ["BUSY"]
        assert said(await served.claim("a")) == ["GRANTED"]
