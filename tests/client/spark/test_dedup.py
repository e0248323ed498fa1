"""Ids taken for a job, without Spark: the waits and their limits."""

import sys
import venv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import DataType, StringType, StructField, StructType, YearMonthIntervalType

from oncegate_spark import Gateway, dedup
from oncegate_spark.errors import BadId, BadOption, StillBusy
from oncegate_spark.spark import task_identity
from oncegate_spark.spark.dedup import IdTaker, taken
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.sync.endpoint import Endpoint
from tests.support.client_clock import SteppedClock
from tests.support.stub_gateway import Answer, Asked, StubGateway
from tests.support.verdicts import BUSY, DUPLICATE, GRANTED, packed


def sent(asked: Asked) -> list[str]:
    return list(pa.ipc.open_stream(asked.body).read_all().column("id0").to_pylist())


def ask(stub: StubGateway, *ids: str) -> list[bool]:
    with Gateway(stub.url, clock=SteppedClock()) as gateway:
        return list(taken(gateway, "load", [pa.array(ids)]).to_pylist())


def test_only_what_is_busy_is_asked_for_again_and_each_row_keeps_its_own_answer() -> None:
    answers = [[BUSY, GRANTED, DUPLICATE, BUSY], [BUSY, BUSY], [GRANTED, BUSY], [DUPLICATE]]
    with StubGateway(*(Answer(body=packed(one)) for one in answers)) as stub:
        assert ask(stub, "a", "b", "c", "d") == [True, True, False, False]
        assert [sent(asked) for asked in stub.asked] == [["a", "b", "c", "d"], ["a", "d"], ["a", "d"], ["d"]]
        assert {asked.headers["oncegate-owner"] for asked in stub.asked} == {"load"}


def test_a_holder_that_never_completes_nor_releases_is_not_waited_for_forever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[IdTaker.__module__], "LEASE_MS", 1_000)
    over = Answer(body=packed([BUSY], left_ms=0))
    with StubGateway(Answer(body=packed([BUSY])), otherwise=lambda asked: over) as stub:
        with pytest.raises(StillBusy, match="another attempt holds 1 rows"):
            ask(stub, "a")
        assert len(stub.asked) > 10


def test_no_rows_are_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_identity, "of_task", Task)  # without a running Spark
    with StubGateway() as stub:
        assert ask(stub) == []
        taker = IdTaker(Endpoint(stub.url, "default", 1_000), "load", ("id",))
        empty = pa.RecordBatch.from_pydict({"id": pa.array([], pa.string())})
        assert [batch.num_rows for batch in taker(iter([empty]))] == [0]
        assert stub.asked == []


def test_a_row_without_an_id_is_found_before_any_of_its_batch_is_taken() -> None:
    with StubGateway() as stub, Gateway(stub.url) as gateway:
        taker = IdTaker(Endpoint(stub.url, "default", 1_000), "load", ("id",))
        with pytest.raises(BadId):
            taker.owned(gateway, pa.RecordBatch.from_pydict({"id": ["a", None]}))
        assert stub.asked == []


@pytest.mark.server
def test_an_id_of_several_columns_is_one_id_and_not_their_text(gateway: Gateway) -> None:
    first, second = pa.array(["a", "ab"]), pa.array(["bc", "c"])
    assert taken(gateway, "one", [first, second]).to_pylist() == [True, True]
    assert taken(gateway, "two", [first.slice(0, 1), second.slice(0, 1)]).to_pylist() == [False]


@pytest.mark.server
def test_more_ids_than_one_request_takes_are_asked_for_in_parts(gateway: Gateway) -> None:
    ids = pa.RecordBatch.from_pydict({"id": [f"id-{n}" for n in range(100_001)]})
    taker = IdTaker(Endpoint(gateway.url, gateway.namespace, 20_000), "load", ("id",))
    assert taker.owned(gateway, ids).to_pylist() == [True] * 100_001


def test_dedup_looks_at_the_workers_python_and_the_types_on_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "bare")
    monkeypatch.delenv("PYTHONPATH", raising=False)

    def df(python: str, **columns: DataType) -> Any:
        """Returns the part of a DataFrame that is checked before a plan is made."""
        context = SimpleNamespace(pythonExec=python, getLocalProperty=lambda name: None)
        conf = SimpleNamespace(get=lambda name, default: default)
        session = SimpleNamespace(sparkContext=context, conf=conf)
        schema = StructType([StructField(name, kind) for name, kind in columns.items()])
        return SimpleNamespace(isStreaming=False, sparkSession=session, columns=list(columns), schema=schema)

    bare, own = str(tmp_path / "bare/bin/python"), sys.executable
    request = {"job_key": "k", "gateway": "http://127.0.0.1:1"}
    with pytest.raises(BadOption, match=r"which has no oncegate_spark and no pyarrow: export PYSPARK_PYTHON="):
        dedup(df(bare, id=StringType()), "id", **request)
    with pytest.raises(BadOption, match="lasts is of type interval year to month"):
        dedup(df(own, id=StringType(), lasts=YearMonthIntervalType()), "id", **request)
    with pytest.raises(BadId, match=r"id is of type string collate UNICODE_CI, .*cast"):
        dedup(df(own, id=StringType("UNICODE_CI")), "id", **request)
