"""The rows of the matrix that one broker is enough for: what is struck, and how."""

import signal
from collections.abc import Callable
from dataclasses import dataclass

from demo.proxy import Trap
from oncegate_spark import Gateway
from oncegate_spark.errors import OncegateError
from tests.matrix.life import Life
from tests.matrix.world import StruckGateway, World, until
from tests.support.kafka_proxy import ADD_PARTITIONS, END_TXN, INIT_PRODUCER_ID, PRODUCE

# Strikes one life of a world, and returns once it is done; whether the fault was met.
Strike = Callable[[World, Life], bool]


@dataclass(frozen=True)
class Row:
    """One fault. `of`: the rows of the design that it tries; `control`: it has to show duplicates, without a gateway's
    help; `collecting`: the ledger is collected all the time; `brokers`: how many it needs."""

    name: str
    of: str
    what: str
    strike: Strike
    control: bool = False
    collecting: bool = False
    brokers: int = 1


def through(verb: str, api: int, **more: bool) -> Strike:
    """The proxy before the broker does `verb` to a request of the life's step, until the life is over."""

    def strike(world: World, life: Life) -> bool:
        assert world.kafka is not None
        before, proxy = world.proxy.struck[api], world.proxy
        world.kafka.do(lambda: getattr(proxy, verb)(api, after=life.step, **more))
        life.start()
        life.finish()
        world.kafka.do(proxy.forget)
        return proxy.struck[api] > before

    return strike


def late(api: int, then: int) -> Strike:
    """A request is held and its connection cut; it comes to the broker while a later transaction is under way."""

    def strike(world: World, life: Life) -> bool:
        assert world.kafka is not None
        proxy = world.proxy
        world.kafka.do(lambda: proxy.hold(api, cut=True, after=life.step))
        life.start()
        until("the request is held", lambda: proxy.held.is_set() or not life.is_alive())
        if not proxy.held.is_set():
            return False
        seen = proxy.seen[then]
        until("a later transaction is under way", lambda: proxy.seen[then] > seen)
        world.kafka.do(proxy.release)
        life.finish()
        return True

    return strike


def twice(first: int, second: int) -> Strike:
    """The answer to one request is lost, and to the first of the kind that is sent to find out what became of it."""

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
    """An answer of the gateway is lost on its way to the client."""

    def strike(world: World, life: Life) -> bool:
        lost: list[str] = []
        world.http.arm(Trap(verb, lambda: True, lost.append, lambda _: None))
        life.start()
        life.finish()
        return bool(lost)

    return strike


def killed(point: str) -> Strike:
    """The gateway is killed at a point of the life's step, and started again."""

    def strike(world: World, life: Life) -> bool:
        return _killed(world, life, point, life.step)

    return strike


def _killed(world: World, life: Life, point: str, passes: int) -> bool:
    world.gateway.arm(point, passes=passes)
    life.start()
    until("the gateway is struck", lambda: world.gateway.is_struck or not life.is_alive())
    struck = world.gateway.is_struck
    if struck:
        world.gateway.await_end()
    life.finish()
    world.gateway.settle()
    return struck


def killed_in_doubt(point: str) -> Strike:
    """The answer to EndTxn is lost, and the gateway is killed at a point of finding out."""

    def strike(world: World, life: Life) -> bool:
        assert world.kafka is not None
        world.kafka.do(lambda: world.proxy.lose_answer(END_TXN, after=life.step))
        struck = _killed(world, life, point, 0)
        world.kafka.do(world.proxy.forget)
        return struck

    return strike


def killed_with_end(world: World, life: Life) -> bool:
    """The gateway is killed when the broker has answered EndTxn, and the answer is on its way."""
    assert world.kafka is not None
    proxy = world.proxy
    world.kafka.do(lambda: proxy.hold_answer(END_TXN, after=life.step))
    life.start()
    until("the answer is held", lambda: proxy.held.is_set() or not life.is_alive())
    held = proxy.held.is_set()
    if held:
        world.gateway.kill()
    world.kafka.do(proxy.forget)
    life.finish()
    return held


def killed_opening(point: str) -> Strike:
    """The gateway is killed when a life is over, the next one at a point of its opening; a third one serves."""

    def strike(world: World, life: Life) -> bool:
        life.start()
        life.finish()
        world.gateway.kill()
        world.gateway.arm(point)
        world.gateway.spawn()
        until("the gateway is struck", lambda: world.gateway.is_struck or world.gateway.is_ready())
        struck = world.gateway.is_struck
        if struck:
            world.gateway.await_end()
        world.gateway.settle()
        return struck

    return strike


def followed(point: str) -> Strike:
    """The owner sleeps at a point, another gateway follows it and serves, and then the owner wakes."""

    def strike(world: World, life: Life) -> bool:
        older, newer = world.gateway, world.another()
        older.arm(point, signal.SIGSTOP, life.step)
        life.start()
        until("the owner sleeps", lambda: older.is_struck or not life.is_alive())
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
    """A gateway that was followed grants nothing."""
    with Gateway(older.url, timeout_ms=2_000) as client:
        try:
            claimed = client.attempt().claim([name])
        except OncegateError:
            return
        assert not list(claimed.granted), "an owner that was followed grants an id"


def slept(point: str) -> Strike:
    """A gateway that opens sleeps at a point, another one opens and serves, and then the first wakes."""

    def strike(world: World, life: Life) -> bool:
        sleeper = world.gateway
        sleeper.kill()
        sleeper.arm(point, signal.SIGSTOP)
        sleeper.spawn()
        until("the opener sleeps", lambda: sleeper.is_struck or sleeper.is_ready())
        struck = sleeper.is_struck
        newer = world.another()
        newer.start()
        world.follow(newer)
        if struck:
            sleeper.go_on()
        life.start()
        life.finish()
        sleeper.kill()
        return struck

    return strike


def killed_collecting(point: str) -> Strike:
    """The gateway is killed at a point of a collection, which begins by itself within seconds."""

    def strike(world: World, life: Life) -> bool:
        world.gateway.arm(point)
        life.start()
        until("the gateway is struck", lambda: world.gateway.is_struck, patience_s=60)
        world.gateway.await_end()
        life.finish()
        world.gateway.settle()
        return True

    return strike


ANSWERS = (
    Row("answer-claim", "X02 F2", "the answer to a claim is lost", answer_lost("claim")),
    Row("answer-complete", "X11 F6", "the answer to a completion is lost", answer_lost("complete")),
    Row("answer-produce", "X10", "the answer to a produce is lost", answer_lost("produce")),
)
REQUESTS = (
    Row("end-answer-lost", "K3 X08 F15", "the answer to EndTxn is lost", through("lose_answer", END_TXN)),
    Row("end-lost", "K3 X08", "EndTxn never comes, its connection is cut", through("lose", END_TXN)),
    Row("end-held", "K3", "EndTxn waits longer than the gateway", through("hold", END_TXN)),
    Row("end-answer-held", "K3", "the answer to EndTxn waits longer than the gateway", through("hold_answer", END_TXN)),
    Row("end-late", "K4", "EndTxn comes while a later transaction is under way", late(END_TXN, ADD_PARTITIONS)),
    Row("produce-late", "K5 X18 X20 F18", "PRODUCE comes in a later transaction", late(PRODUCE, ADD_PARTITIONS)),
    Row("produce-answer-lost", "K3", "the answer to PRODUCE is lost: it comes twice", through("lose_answer", PRODUCE)),
    Row("produce-held", "K2 X35", "PRODUCE waits longer than the gateway", through("hold", PRODUCE)),
    Row("partitions-lost", "K6", "the answer to AddPartitionsToTxn is lost", through("lose_answer", ADD_PARTITIONS)),
    Row(
        "doubt-start-lost", "K3 X36", "in doubt, InitProducerId's answer is lost too", twice(END_TXN, INIT_PRODUCER_ID)
    ),
    Row("doubt-end-lost", "K3 X36", "in doubt, the next EndTxn's answer is lost too", twice(END_TXN, END_TXN)),
)
KILLS = (
    Row("kill-begun", "X27 F12", "killed when a transaction has begun", killed("begun")),
    Row("kill-outputs", "X06 X27 F13", "killed between rows and frame", killed("outputs sent")),
    Row("kill-before-end", "X07 X27 F14", "killed before EndTxn", killed("all sent")),
    Row("kill-with-end", "X09 X27 F15", "killed when the broker has answered EndTxn", killed_with_end),
    Row("kill-committed", "X10 X27 F16", "killed between commit and answer", killed("committed")),
    Row("kill-in-doubt", "X09 F15", "killed in doubt, before it finds out", killed_in_doubt("in doubt")),
    Row("kill-decided", "X09 F15", "killed in doubt, when it has found out", killed_in_doubt("decided")),
)
OPENINGS = tuple(
    Row(name, of, f"killed in its opening: {what}", killed_opening(point))
    for name, of, what, point in (
        ("open-generation", "X42", "it has a generation", "generation taken"),
        ("open-ended", "X42 X59 F19", "it has ended its predecessors", "older ended"),
        ("open-started", "X59 F19", "its producer has started", "producer started"),
        ("open-read", "X59 F19", "it has read the frames", "frames read"),
        ("open-owned", "X59 F19", "it has committed its entry", "owned"),
        ("open-proved", "X59 F19", "its proof is listed", "proved"),
        ("open-replaying", "X59 F19", "in the middle of the replay", "replaying"),
    )
)
OWNERS = (
    Row("sleep-before-end", "K9 X19 X28", "the owner sleeps before EndTxn, is followed, wakes", followed("all sent")),
    Row("sleep-committed", "K9 X28", "the owner sleeps before it answers, is followed, wakes", followed("committed")),
    Row("sleep-generation", "X21 X42", "an opener sleeps with its generation, wakes", slept("generation taken")),
    Row("sleep-started", "X21", "an opener sleeps with its producer started, wakes", slept("producer started")),
    Row("sleep-read", "K10 X21", "an opener sleeps when it has read, wakes", slept("frames read")),
)
COLLECTIONS = tuple(
    Row(name, "X46", f"killed in a collection: {what}", killed_collecting(point), collecting=True)
    for name, what, point in (
        ("collect-piece", "a piece is written", "piece written"),
        ("collect-before", "before the frame that names it", "before the collection"),
        ("collect-named", "it is named", "collected"),
        ("collect-delete", "before records are deleted", "before the deletion"),
        ("collect-deleted", "when records were deleted", "deleted"),
    )
)
CONTROLS = (
    Row("control-answer", "O10", "each try writes anew, an answer is lost", answer_lost("produce"), control=True),
    Row("control-kill", "O10", "each try writes anew, killed before the answer", killed("committed"), control=True),
)
ROWS: tuple[Row, ...] = (*ANSWERS, *REQUESTS, *KILLS, *OPENINGS, *OWNERS, *COLLECTIONS, *CONTROLS)
