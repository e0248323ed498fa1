"""Runs rows of the matrix, each over a prefix of its own, and counts what is found."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from deploy.kafka.cluster import Cluster
from tests.matrix.audit import audited
from tests.matrix.life import Life
from tests.matrix.report import Counted
from tests.matrix.rows import Row
from tests.matrix.world import KafkaProxyThread, World, world
from tests.support.kafka_broker import Broker, one_broker


class Stage(NamedTuple):
    """Brokers that several rows share, each with a prefix of its own; `kafka` stands before a single one."""

    broker: Broker
    kafka: KafkaProxyThread | None


@contextmanager
def one(folder: Path) -> Iterator[Stage]:
    """A broker behind its proxy, for all rows that one is enough for."""
    with one_broker(folder / "broker") as broker, KafkaProxyThread(broker) as kafka:
        yield Stage(broker, kafka)


@contextmanager
def three(folder: Path) -> Iterator[Stage]:
    """Three brokers, for rows that kill one of them."""
    with Cluster(folder / "brokers", brokers=3) as cluster:
        yield Stage(Broker(cluster, behind=0, proxy_port=0), None)


STAGES = {1: one, 3: three}


def run(row: Row, numbers: Iterable[int], stage: Stage, folder: Path) -> Counted:
    """Runs one row in a world of its own, once for each number; what raises ends it: `wrong`."""
    began = time.monotonic()
    try:
        with world(*stage, folder, row.collecting) as struck:
            warm_up(struck, row)
            counted = run_in(struck, row, numbers)
    except Exception as error:
        counted = Counted(row, wrong=[f"{type(error).__name__}: {error}"])
    counted.seconds = time.monotonic() - began
    return counted


def warm_up(struck: World, row: Row) -> None:
    """Works once before anything is struck: topics are made, and kernels are compiled."""
    life = row.made(struck, -1, not row.control)
    life.start()
    life.finish()


def run_in(struck: World, row: Row, numbers: Iterable[int]) -> Counted:
    """Runs one row once for each number, which says what append is struck, and is new to the world."""
    counted = Counted(row)
    try:
        for number in numbers:
            _run_once(struck, row.made(struck, number, not row.control), row, counted)
    except Exception as error:
        counted.wrong.append(f"{type(error).__name__}: {error}")
    return counted


def _run_once(struck: World, life: Life, row: Row, counted: Counted) -> None:
    ended_again = struck.kafka.proxy.ended_again if struck.kafka else 0
    counted.runs += 1
    counted.hits += row.strike(struck, life)
    told = life.ask_again()
    counted.duplicated += told.duplicated
    counted.lost += told.lost
    counted.wrong += audited(struck.broker, struck.prefix, struck.topics).wrong
    if struck.kafka and struck.kafka.proxy.ended_again > ended_again:
        counted.wrong.append("EndTxn was sent twice for one transaction")
