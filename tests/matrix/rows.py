"""The rows of the matrix, and the strikes that need one broker."""

import signal
from collections.abc import Callable
from dataclasses import dataclass

from demo.proxy import Trap
from oncegate_spark import Gateway
from oncegate_spark.errors import OncegateError
from tests.matrix.deliveries import Growth
from tests.matrix.life import Life
from tests.matrix.world import StruckGateway, World, wait_until
from tests.support.kafka_proxy import ADD_PARTITIONS, END_TXN, KafkaProxy

# On a busy machine brokers take seconds. Rows that wait for the timeout itself use the shorter one.
WAIT_MS = 4_000
HELD_MS = 2_000
# Strikes one life of a world, returns once the life is done, and reports whether the fault was met.
Strike = Callable[[World, Life], bool]


@dataclass(frozen=True)
class Row:
    """One fault.

    `of`: the rows of the list of faults that it tries; `control`: it must show duplicates, without a gateway's help;
    `collecting`: the ledger is collected all the time; `made`: creates the work that is struck; `brokers`: how many it
    needs; `wait_ms`: timeout of the brokers for sending a transaction, and again for ending it.
    """

    name: str
    of: str
    what: str
    strike: Strike
    control: bool = False
    collecting: bool = False
    made: type[Life] = Life
    brokers: int = 1
    wait_ms: int = WAIT_MS


def through(verb: str, api: int, **more: bool) -> Strike:
    """Makes the proxy before the broker do `verb` to a request of the life's step."""

    def strike(world: World, life: Life) -> bool:
        assert world.kafka is not None
        before, proxy = world.proxy.struck[api], world.proxy
        world.kafka.do(lambda: getattr(proxy, verb)(api, after=life.step, **more))
        life.start()
        life.finish()
        world.kafka.do(proxy.forget)
        return proxy.struck[api] > before

    return strike


def late(api: int, transactions: Callable[[KafkaProxy], int]) -> Strike:
    """Holds a request and cuts its connection; the request reaches the broker when `transactions` has grown by one."""

    def strike(world: World, life: Life) -> bool:
        assert world.kafka is not None
        proxy = world.proxy
        world.kafka.do(lambda: proxy.hold(api, cut=True, after=life.step))
        life.start()
        wait_until("the request is held", lambda: proxy.held.is_set() or not life.is_alive())
        if not proxy.held.is_set():
            return False
        begun = transactions(proxy)
        wait_until("a later transaction is under way", lambda: transactions(proxy) > begun)
        world.kafka.do(proxy.release)
        life.finish()
        return True

    return strike


def of_ledgers(proxy: KafkaProxy) -> int:
    """Counts the transactions of ledgers' generations: the id of the list of namespaces has no slash."""
    return sum(count for one, count in proxy.begun.items() if b"/" in one)


def of_any(proxy: KafkaProxy) -> int:
    """Counts requests that add a partition to any transaction."""
    return proxy.seen[ADD_PARTITIONS]


def twice(first: int, second: int) -> Strike:
    """Loses the answer to one request, and to the first request of the kind that then asks for its outcome."""

    def strike(world: World, life: Life) -> bool:
        assert world.kafka is not None
        proxy, before = world.proxy, world.proxy.struck[second]
        world.kafka.do(lambda: proxy.lose_answer(first, after=life.step))
        world.kafka.do(lambda: proxy.lose_answer(second))
        life.start()
        life.finish()
        world.kafka.do(proxy.forget)
        return proxy.struck[second] > before

    return strike


def answer_lost(verb: str) -> Strike:
    """Loses an answer of the gateway on its way to the client."""

    def strike(world: World, life: Life) -> bool:
        lost: list[str] = []
        world.http.arm(Trap(verb, lambda: True, lost.append, lambda _: None))
        life.start()
        life.finish()
        return bool(lost)

    return strike


def killed(point: str) -> Strike:
    """Kills the gateway at a point of the life's step, and restarts it."""

    def strike(world: World, life: Life) -> bool:
        return _killed(world, life, point, life.step)

    return strike


def _killed(world: World, life: Life, point: str, passes: int) -> bool:
    world.gateway.arm(point, passes=passes)
    life.start()
    wait_until("the gateway is struck", lambda: world.gateway.is_struck or not life.is_alive())
    struck = world.gateway.is_struck
    if struck:
        world.gateway.await_end()
    life.finish()
    world.gateway.settle()
    return struck


def killed_in_doubt(point: str) -> Strike:
    """Loses the answer to EndTxn, and kills the gateway at a point of the recovery that follows."""

    def strike(world: World, life: Life) -> bool:
        assert world.kafka is not None
        world.kafka.do(lambda: world.proxy.lose_answer(END_TXN, after=life.step))
        struck = _killed(world, life, point, 0)
        world.kafka.do(world.proxy.forget)
        return struck

    return strike


def killed_with_end(world: World, life: Life) -> bool:
    """Kills the gateway when the broker has answered EndTxn and the answer is in transit."""
    assert world.kafka is not None
    proxy = world.proxy
    world.kafka.do(lambda: proxy.hold_answer(END_TXN, after=life.step))
    life.start()
    wait_until("the answer is held", lambda: proxy.held.is_set() or not life.is_alive())
    held = proxy.held.is_set()
    if held:
        world.gateway.kill()
    world.kafka.do(proxy.forget)
    life.finish()
    return held


def killed_opening(point: str) -> Strike:
    """Kills the gateway when a life is over, and the next one at a point of its opening; a third one serves."""

    def strike(world: World, life: Life) -> bool:
        life.start()
        life.finish()
        world.gateway.kill()
        return killed_in_its_opening(world.gateway, point)

    return strike


def killed_in_its_opening(gateway: StruckGateway, point: str) -> bool:
    """Starts a dead gateway and kills it at a point; returns whether it was killed. Afterwards the gateway serves."""
    gateway.arm(point)
    gateway.spawn()
    wait_until("the gateway is struck", lambda: gateway.is_struck or gateway.is_ready())
    struck = gateway.is_struck
    if struck:
        gateway.await_end()
    gateway.settle()
    return struck


def followed(point: str) -> Strike:
    """Pauses the owner at a point until another gateway has succeeded it and serves."""

    def strike(world: World, life: Life) -> bool:
        older, newer = world.gateway, world.another()
        older.arm(point, signal.SIGSTOP, life.step)
        life.start()
        wait_until("the owner sleeps", lambda: older.is_struck or not life.is_alive())
        struck = older.is_struck
        newer.start()
        world.follow(newer)
        if struck:
            older.go_on()
        life.finish()
        if struck:
            _require_refused(older, f"{world.prefix}-zombie-{life.number}")
        older.kill()
        return struck

    return strike


def _require_refused(older: StruckGateway, name: str) -> None:
    """Waits until a superseded gateway answers LEDGER_FENCED; fails if the gateway grants the id."""
    wait_until("the superseded owner refuses", lambda: _asked(older, name) == "LEDGER_FENCED")


def _asked(older: StruckGateway, name: str) -> str | None:
    with Gateway(older.url, timeout_ms=2_000) as client:
        try:
            claimed = client.attempt().claim([name])
        except OncegateError as error:
            return error.code
        assert not list(claimed.granted), "a superseded owner grants an id"
        return None


def slept(point: str) -> Strike:
    """Pauses a gateway at a point of its opening until another one has opened and serves."""

    def strike(world: World, life: Life) -> bool:
        sleeper = world.gateway
        sleeper.kill()
        sleeper.arm(point, signal.SIGSTOP)
        sleeper.spawn()
        wait_until("the opener sleeps", lambda: sleeper.is_struck or sleeper.is_ready())
        struck = sleeper.is_struck
        newer = world.another()
        newer.start()
        world.follow(newer)
        life.start()
        if struck:
            sleeper.go_on()
            wait_until("the paused opener ends", lambda: not sleeper.is_alive or sleeper.is_ready())
            assert not sleeper.is_alive, "a paused opener serves a ledger that another has opened"
        life.finish()
        return struck

    return strike


def killed_collecting(point: str) -> Strike:
    """Kills the gateway at a point of a collection, which begins by itself once the ledger has grown enough."""

    def strike(world: World, life: Life) -> bool:
        world.gateway.arm(point)
        life.start()
        grow = Growth(world)
        grow.start()
        wait_until("the gateway is struck", lambda: world.gateway.is_struck)
        grow.is_enough.set()
        grow.join()
        world.gateway.await_end()
        life.finish()
        world.gateway.settle()
        return True

    return strike
