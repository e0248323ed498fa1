"""Errors for jobs that ship this package in a way that would fail in Spark, with the lines to write instead."""

import sys
import venv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from oncegate_spark import foreach_batch, register
from oncegate_spark.errors import BadOption
from oncegate_spark.spark import pickling


class Session:
    """The part of a classic session that is checked."""

    def __init__(self, python: str) -> None:
        self.sparkContext = SimpleNamespace(pythonExec=python)
        self.registered: list[Any] = []
        self.dataSource = SimpleNamespace(register=self.registered.append)


class Connect:
    """A session of Spark Connect, without a SparkContext."""

    __module__ = "pyspark.sql.connect.session"

    def __init__(self) -> None:
        self.conf = SimpleNamespace(getAll={"spark.app.name": "a job"})
        self.registered: list[Any] = []
        self.dataSource = SimpleNamespace(register=self.registered.append)


def test_a_relative_python_that_the_driver_does_not_have_is_refused_with_the_line_that_unpacks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = Session("./environment/bin/python")
    with pytest.raises(BadOption, match=r"tar -xzf environment\.tar\.gz -C environment.*absolute path"):
        register(session)
    assert not session.registered
    (tmp_path / "environment/bin").mkdir(parents=True)
    (tmp_path / "environment/bin/python").touch()
    register(session)
    assert session.registered


@pytest.mark.parametrize("session", [Session(sys.executable), Session("/opt/python/bin/python"), Connect()])
def test_what_can_work_is_registered(session: Any) -> None:
    register(session)
    assert session.registered


def test_a_wheel_on_the_path_is_refused_because_no_worker_would_find_it() -> None:
    here = Path("/jobs/oncegate_spark-1.2.3-py3-none-any.whl/oncegate_spark/shipping.py")
    line = r"cp oncegate_spark-1\.2\.3-py3-none-any\.whl oncegate_spark\.zip"
    with pytest.raises(BadOption, match=line):
        pickling.check(Session("python3"), here)


def test_foreach_batch_through_spark_connect_is_refused_before_anything_is_written() -> None:
    """Spark Connect reveals neither query nor run; without them a replay could not be recognized."""
    called: list[int] = []
    noted = foreach_batch(lambda df, batch: called.append(batch), checkpoint="/checkpoints/a")
    with pytest.raises(BadOption, match=r'option\("txnVersion", str\(batch_id\)\).*writeId'):
        noted(SimpleNamespace(sparkSession=Connect()), 0)
    assert not called


def test_a_workers_python_without_the_package_is_refused_with_the_line_that_names_the_drivers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "bare")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    session = Session("python3")
    monkeypatch.setenv("PATH", str(tmp_path / "bare/bin"))
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    line = rf"bare/bin/python3 \(python3 of PATH\), which has no oncegate_spark and no pyarrow: .*{sys.executable}"
    with pytest.raises(BadOption, match=line):
        register(session)
    assert not session.registered
    monkeypatch.setenv("PYTHONPATH", str(Path(pickling.__file__).parents[2]))
    with pytest.raises(BadOption, match="which has no pyarrow: export"):
        register(session)


def test_a_package_that_travels_as_a_zip_is_not_looked_for_in_the_workers_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "bare")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    python = str(tmp_path / "bare/bin/python")
    pickling.check(Session(python), Path("/jobs/oncegate_spark.zip/oncegate_spark/spark/pickling.py"))
    with pytest.raises(BadOption):
        pickling.check(Session(python))
