"""Runs rows of the matrix, each under its own prefix, and counts the outcomes."""

import time
from collections.abc import Callable, Iterator
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

Report = Callable[[Counted], None]


class Stage(NamedTuple):
    """Brokers that several rows share, each with its own prefix; `kafka` is the proxy before a single one."""

    broker: Broker
    kafka: KafkaProxyThread | None


@contextmanager
def one(folder: Path) -> Iterator[Stage]:
    """Yields a broker with its proxy, for all rows that need one broker."""
    with one_broker(folder / "broker") as broker, KafkaProxyThread(broker) as kafka:
        yield Stage(broker, kafka)


@contextmanager
def three(folder: Path) -> Iterator[Stage]:
    """Yields three brokers, for rows that kill one of them."""
    with Cluster(folder / "brokers", brokers=3) as cluster:
        yield Stage(Broker(cluster, behind=0, proxy_port=0), None)


STAGES = {1: one, 3: three}


def run(counted: Counted, stage: Stage, folder: Path, report: Report) -> None:
    """Runs the remaining runs of one row in its own world and calls `report` after each.

    An exception ends the row and is recorded in `wrong`.

    Runs are numbered from 0, in whichever process they run: the number determines the append that is struck.
    """
    began, before, row = time.monotonic(), counted.seconds, counted.row

    def timed(counted: Counted) -> None:
        counted.seconds = before + time.monotonic() - began
        report(counted)

    try:
        with world(*stage, folder, row.collecting, row.wait_ms) as struck:
            warm_up(struck, row)
            run_in(struck, counted, range(counted.runs, counted.asked), timed)
    except Exception as error:
        counted.wrong.append(_error(error))
        timed(counted)


def warm_up(struck: World, row: Row) -> None:
    """Works once before anything is struck, so that topics exist and kernels are compiled."""
    life = row.made(struck, -1, not row.control)
    life.start()
    life.finish()


def run_in(struck: World, counted: Counted, numbers: range, report: Report = lambda _: None) -> Counted:
    """Runs one row once for each number, which must be new to the world and determines the append that is struck. Stops
    at the first problem."""
    for number in numbers:
        try:
            _run_once(struck, counted.row.made(struck, number, not counted.row.control), counted)
        except Exception as error:
            counted.wrong.append(_error(error))
        report(counted)
        if counted.wrong:
            break
    return counted


def _error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _run_once(struck: World, life: Life, counted: Counted) -> None:
    ended_again = struck.kafka.proxy.ended_again if struck.kafka else 0
    counted.hits += counted.row.strike(struck, life)
    outcome = life.ask_again()
    counted.duplicated += outcome.duplicated
    counted.lost += outcome.lost
    counted.wrong += audited(struck.broker, struck.prefix, struck.topics).wrong
    if struck.kafka and struck.kafka.proxy.ended_again > ended_again:
        counted.wrong.append("EndTxn was sent twice for one transaction")
    counted.runs += 1
