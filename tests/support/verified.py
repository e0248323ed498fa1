"""Shared by tests of `oncegate verify --against`: an input file, rows in a topic, and the JSON report."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet
from typer.testing import CliRunner

from oncegate.cli import app
from oncegate_spark import Gateway

ROWS = 1_000


def table_of(*numbers: int) -> Any:
    return pa.table({"order": pa.array([f"o-{number}" for number in numbers]), "cents": pa.array(numbers, pa.int64())})


def write_input(path: Path, numbers: range = range(ROWS)) -> Path:
    pa.parquet.write_table(table_of(*numbers), path, row_group_size=300)
    return path


class Where(NamedTuple):
    """A namespace of a running gateway, for one test alone."""

    url: str
    namespace: str

    def client(self) -> Gateway:
        return Gateway(self.url, namespace=self.namespace)


def write_by_id(where: Where, *numbers: int) -> None:
    with where.client() as gateway, gateway.attempt() as attempt:
        attempt.produce("orders", table_of(*numbers), id_col="order")


def write_past_the_ledger(where: Where, *numbers: int) -> None:
    """Writes rows without an id, as a plain producer does beside the others."""
    with where.client() as gateway, gateway.attempt() as attempt:
        attempt.produce("orders", table_of(*numbers))


def mark_written(where: Where, *numbers: int, complete: bool = True) -> None:
    """Claims ids of the topic's scope and completes them without writing rows."""
    with where.client() as gateway:
        attempt = gateway.attempt(id_set="orders")
        claimed = attempt.claim([f"o-{number}" for number in numbers])
        if complete:
            attempt.complete(claimed)


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["verify", *arguments], prog_name="oncegate")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def arguments_for(where: Where, given: Path) -> list[str]:
    """Returns the arguments that select the two sides of the comparison."""
    named = ["--against", "orders", "--url", where.url, "--namespace", where.namespace]
    return [*named, "--input", str(given), "--id-col", "order", "--state", str(given.parent / "state")]


def verify(where: Where, given: Path, *more: str) -> tuple[int, Any]:
    """Returns the exit status and the report of one run against the topic `orders`."""
    status, out, err = run(*arguments_for(where, given), "--json", *more)
    assert out, err
    return status, json.loads(out)


def wrong(report: Any) -> dict[str, int]:
    """Returns the number of ids of each kind that is not ok."""
    return {kind: count for kind, count in report["ids"].items() if count and kind != "ok"}
