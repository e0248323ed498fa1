"""The plans of the demo: ways to write, the faults that strike them, and the amount streamed."""

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from demo.data import SHORT, WHOLE, Size
from demo.faults import BROKER_KILL, BY_NAME, FAULTS, SERVER_KILL, STANDBY_TAKEOVER, Fault


@dataclass(frozen=True)
class Way:
    """A way to write.

    promise: nothing (the baseline), copies only by takeover, or each row once.
    gateway: the way uses a gateway, which faults can strike. salted: the input already contains copies.
    """

    name: str
    title: str
    colour: str
    promise: Literal["none", "takeovers", "once"]
    dashes: Any = "solid"
    gateway: bool = True
    salted: bool = False


@dataclass(frozen=True)
class Plan:
    """Ways and faults of a demo; each way meets the faults that can strike it."""

    name: str
    ways: tuple[Way, ...]
    faults: tuple[Fault, ...]
    size: Size = field(default=WHOLE)

    def way(self, name: str) -> Way:
        """Returns a way by its name. Raises KeyError."""
        return {way.name: way for way in self.ways}[name]

    def fault(self, name: str) -> Fault | None:
        """Returns a fault by its name; None if the plan does not contain it."""
        return {fault.name: fault for fault in self.faults}.get(name)

    def faults_of(self, name: str) -> tuple[Fault, ...]:
        """Returns the faults that can strike a way."""
        way = self.way(name)
        return tuple(fault for fault in self.faults if way.gateway or not fault.gateway)


_DASHED = (0, (4, 4))  # dashed, since it covers the line of staged
_STAGED = Way("staged", "the gateway writes, each batch once", "#1e8449", "once")
_IDS = Way("ids", "the gateway writes, each id once", "#2471a3", "once", _DASHED, salted=True)

TOPICS_OF_THE_GATEWAY = (
    Way("plain", "an at-least-once sink, as Spark's for Kafka", "#c0392b", "none"),
    Way("claim", "executors ask, then write", "#d68910", "takeovers"),
    _STAGED,
    _IDS,
)
SPARKS_SINK = "kafka"
TOPICS_OF_KAFKA = (
    Way(SPARKS_SINK, "Spark's own Kafka sink, at least once", "#c0392b", "none", gateway=False),
    _STAGED,
    _IDS,
)
_DIRECT = Way("direct", "executors write, each sequence once", "#7d3c98", "once")


def _in_turn(*names: str) -> tuple[Fault, ...]:
    """Returns the faults, one per batch; the first batch has none."""
    return tuple(replace(BY_NAME[name], batch=batch) for batch, name in enumerate(names, 1))


_KAFKA_FAULTS = (*FAULTS[:4], BROKER_KILL, *FAULTS[4:], STANDBY_TAKEOVER)
_REDIS_FAULTS = (*FAULTS[:4], SERVER_KILL, *FAULTS[4:], STANDBY_TAKEOVER)
EMBEDDED = Plan("embedded", TOPICS_OF_THE_GATEWAY, FAULTS)
KAFKA = Plan("kafka", TOPICS_OF_KAFKA, _KAFKA_FAULTS)
REDIS = Plan("redis", TOPICS_OF_THE_GATEWAY, _REDIS_FAULTS)
_FIRST = ("task_error", "driver_kill")
_KAFKA_SHORT = _in_turn(*_FIRST, "broker_kill", "standby_takeover")
PLANS = MappingProxyType(
    {
        plan.name: plan
        for plan in (
            EMBEDDED,
            Plan("embedded-short", TOPICS_OF_THE_GATEWAY, _in_turn(*_FIRST, "gateway_kill", "reply_lost"), SHORT),
            KAFKA,
            Plan("kafka-short", TOPICS_OF_KAFKA, _KAFKA_SHORT, SHORT),
            Plan("kafka-direct", (*TOPICS_OF_KAFKA, _DIRECT), _KAFKA_FAULTS),
            Plan("kafka-direct-short", (*TOPICS_OF_KAFKA, _DIRECT), _KAFKA_SHORT, SHORT),
            REDIS,
            Plan("redis-short", TOPICS_OF_THE_GATEWAY, _in_turn(*_FIRST, "server_kill", "standby_takeover"), SHORT),
        )
    }
)
