"""Strikes on the state that an owner keeps in memory, and on operations that wait for the next owner."""

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection

from oncegate_spark import Gateway
from tests.matrix.deliveries import Delivery
from tests.matrix.life import ASK_MS, Life
from tests.matrix.rows import Row, Strike, killed_in_its_opening
from tests.matrix.world import PATIENCE_S, World
from tests.support.staged_batches import Batch

# Longer than any opening takes.
LEASE_MS = 600_000
NOBODYS_CLAIM = "0" * 25 + "1"


def answered_by_a_sleeper(world: World, life: Life) -> bool:
    """Pauses the owner, starts a successor, and sends the owner requests that it could answer from memory before it can
    know of the successor.

    The requests are in its sockets when it wakes: it reads them before anything from the brokers.
    """
    older, newer = world.gateway, world.another()
    with Gateway(older.url, timeout_ms=ASK_MS) as client:
        claimed = client.attempt().claim([f"{world.prefix}-held-{life.number}"], lease_ms=LEASE_MS)
    requests = [f"{claimed.verdicts.claim}:renew", f"{NOBODYS_CLAIM}:release"]
    with ExitStack() as open_connections:
        connections = [open_connections.enter_context(_connected(older.port)) for _ in requests]
        older.signal(signal.SIGSTOP)
        newer.start()
        world.follow(newer)
        for connection, verb in zip(connections, requests, strict=True):
            connection.request("POST", f"/v1/namespaces/default/claims/{verb}")
        older.go_on()
        codes = [json.loads(connection.getresponse().read()).get("code", "OPEN") for connection in connections]
    older.kill()
    life.start()
    life.finish()
    assert set(codes) <= {"LEDGER_FENCED", "RECOVERING"}, f"a superseded owner answers from memory: {codes}"
    return True


@contextmanager
def _connected(port: int) -> Iterator[HTTPConnection]:
    """Yields a connection that the gateway has already accepted."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as connection:
        connection.request("GET", "/healthz/ready")
        connection.getresponse().read()
        yield connection


class Staged(Delivery):
    """A batch that is staged before the strike and committed after it by a client that no longer has its rows."""

    _batch: Batch | None = None

    def stage(self, client: Gateway) -> None:
        """Sends its rows; the client must live as long as this object."""
        self._batch = Batch(
            client, "batches-of-several", "the-only-run", app=self.world.prefix, version=self.number + 1
        )
        self._batch.stage(self._rows(self.batch_ids))

    def _publish(self) -> None:
        if self._batch is None:
            super()._publish()
        else:
            self._batch.commit()


def opened_over_stages(point: str) -> Strike:
    """Kills an opener at a point while a batch waits for its commit, which the next owner receives."""

    def strike(world: World, life: Life) -> bool:
        assert isinstance(life, Staged)
        with Gateway(world.url, timeout_ms=ASK_MS) as client:
            life.stage(client)
            world.gateway.kill()
            struck = killed_in_its_opening(world.gateway, point)
            life.start()
            life.finish()
        return struck

    return strike


REMEMBERED: tuple[Row, ...] = (
    Row("sleep-told", "K9 X28", "the owner sleeps, is followed, is asked when it wakes", answered_by_a_sleeper),
    Row(
        "staged-open-read",
        "X46 X59 F19",
        "a batch waits for its commit: an opener is killed that has read",
        opened_over_stages("frames read"),
        made=Staged,
    ),
    Row(
        "staged-open-ended",
        "X46 X59 F19",
        "a batch waits for its commit: an opener is killed that has ended others",
        opened_over_stages("older ended"),
        made=Staged,
    ),
)
