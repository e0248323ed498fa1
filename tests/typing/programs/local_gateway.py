"""A valid test of a user's program."""

from collections.abc import Iterator

from oncegate.testing import FakeClock, LocalGateway


def url() -> Iterator[str]:
    with LocalGateway("memory:", lease_ms=1_000) as gateway:
        yield gateway.url


def restarted() -> str:
    gateway: LocalGateway = LocalGateway().start()
    gateway.restart()
    gateway.close()
    FakeClock().advance(10)
    return gateway.log
