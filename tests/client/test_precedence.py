"""Precedence of two sources: arguments and options, then the session's settings, then the environment."""

import pickle
from pathlib import Path

import pytest

from oncegate_spark import AsyncGateway, Credentials, Gateway
from oncegate_spark.protocol.address import GatewayAddress, with_key
from oncegate_spark.protocol.effort import TIMEOUT_MS
from oncegate_spark.spark.checkpoint import hadoop
from oncegate_spark.spark.checkpoint.begun import placed
from oncegate_spark.spark.checkpoint.hadoop import CheckpointLocation
from oncegate_spark.spark.checkpoint.stores import of_s3
from oncegate_spark.spark.datasource import OncegateSource, source_of
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.options.refusals import credentials_of

GIVEN = {"url": "http://127.0.0.1:1", "topic": "t"}
KEY = "ONCEGATE_API_KEY"


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    (file := tmp_path / "key").write_text("of_the_file\n")
    return str(file)


def test_the_key_is_that_of_the_argument_then_of_its_file_then_of_the_environment(
    key_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "of_the_environment")
    by_file = Credentials(api_key_file=key_file)
    assert Credentials(api_key="given").key() == ("given", "api_key")
    assert by_file.key() == ("of_the_file", f"api_key_file {key_file}")
    assert Credentials().key() == ("of_the_environment", KEY)
    monkeypatch.delenv(KEY)
    assert Credentials().key() == ("", KEY)


def test_the_key_of_a_task_comes_from_the_file_that_the_option_names_and_not_from_its_environment(
    key_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "of_the_environment")
    for named, key in (({"apikeyfile": key_file}, "of_the_file"), ({}, "of_the_environment")):
        sent = pickle.loads(pickle.dumps(credentials_of({**GIVEN, **named})))
        headers = with_key(GatewayAddress.of(GIVEN["url"], sent), {}, sent)
        assert headers["Authorization"] == f"Bearer {key}"


def test_an_argument_of_a_client_is_taken_in_place_of_its_default() -> None:
    for client in (Gateway, AsyncGateway):
        assert (client(GIVEN["url"]).namespace, client(GIVEN["url"]).timeout_ms) == ("default", TIMEOUT_MS)
        other = client(GIVEN["url"], "n", timeout_ms=TIMEOUT_MS + 1)
        assert (other.namespace, other.timeout_ms) == ("n", TIMEOUT_MS + 1)


def test_the_option_names_a_checkpoint_before_the_session_does() -> None:
    session = {hadoop.CHECKPOINTS: "/session", "fs.defaultFS": "hdfs://cluster"}
    named = {**GIVEN, "queryName": "q"}

    def place(options: dict[str, str], settings: dict[str, str]) -> str | None:
        return placed(Options.read(options), settings).checkpoint

    assert place({**named, "checkpointLocation": "/option"}, session) == "hdfs://cluster/option"
    assert place(named, session) == "hdfs://cluster/session/q"
    assert place({**named, "checkpointLocation": "file:///option"}, session) == "/option"
    assert place(named, {}) is None


def test_a_registered_session_has_its_own_settings_in_place_of_the_environments_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "<property><name>fs.defaultFS</name><value>hdfs://environment</value></property>"
    (tmp_path / "core-site.xml").write_text(f"<configuration>{text}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    registered = source_of({"fs.defaultFS": "hdfs://session"})
    assert registered(GIVEN)._settings() == {"fs.defaultFS": "hdfs://session"}
    assert source_of({})(GIVEN)._settings() == {}, "a session without settings is no missing session"
    assert OncegateSource(GIVEN)._settings() == {"fs.defaultFS": "hdfs://environment"}


def test_through_spark_connect_a_setting_of_the_session_goes_before_that_of_the_environments_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"fs.defaultFS": "hdfs://environment", "fs.s3a.endpoint": "http://environment"}
    rows = "".join(f"<property><name>{name}</name><value>{text}</value></property>" for name, text in texts.items())
    (tmp_path / "core-site.xml").write_text(f"<configuration>{rows}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    conf = type("Conf", (), {"getAll": {"spark.hadoop.fs.defaultFS": "hdfs://session"}})
    session = type("Session", (), {"__module__": "pyspark.sql.connect.session", "conf": conf})()
    assert hadoop.of_session(session) == {"fs.defaultFS": "hdfs://session", "fs.s3a.endpoint": "http://environment"}


def test_the_region_is_that_of_the_bucket_then_of_all_then_of_the_endpoint_then_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[str] = []
    monkeypatch.setattr("pyarrow.fs.S3FileSystem", lambda **given: taken.append(given["region"]))
    place = CheckpointLocation.of("s3a://bucket/c")
    settings = {"fs.s3a.access.key": "k", "fs.s3a.secret.key": "s"}
    sources = (
        ("fs.s3a.bucket.bucket.endpoint.region", "of-the-bucket"),
        ("fs.s3a.endpoint.region", "of-all"),
        ("fs.s3a.endpoint", "s3.eu-north-1.amazonaws.com"),
        ("AWS_REGION", "of-aws-region"),
        ("AWS_DEFAULT_REGION", "of-aws-default"),
    )
    expected = ["of-the-bucket", "of-all", "eu-north-1", "of-aws-region", "of-aws-default"]
    for name, value in sources[3:]:
        monkeypatch.setenv(name, value)
    for at, region in enumerate(expected):
        there = {**settings, **dict(sources[at:3])}
        if at == 4:
            monkeypatch.delenv("AWS_REGION")
        of_s3(place, there)
        assert taken.pop() == region
