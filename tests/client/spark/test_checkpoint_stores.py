"""The store of a checkpoint's offset log: S3, HDFS, and Hadoop's settings for both."""

import hashlib
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from oncegate_spark.errors import BadOption
from oncegate_spark.spark.checkpoint import BatchInput, NoOffsets, OutOfReach, find_input, hadoop
from oncegate_spark.spark.checkpoint.hadoop import CheckpointLocation
from oncegate_spark.spark.checkpoint.stores import OPENERS, open_store
from oncegate_spark.spark.datasource import OncegateSource, StreamWriter, source_of
from oncegate_spark.spark.writers import target
from oncegate_spark.spark.writers.columns.fitting import AS_THEY_COME
from tests.support.s3_server import S3, s3
from tests.support.webhdfs_server import webhdfs

FOUND = BatchInput(10, hashlib.sha256(b"v1\n10").hexdigest(), hashlib.sha256(b"v1\n9").hexdigest(), "q")
ODD = "a b%20c#d?e=é"
SCHEMA = StructType([StructField("n", LongType())])


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spark") / ODD
    (folder / "offsets").mkdir(parents=True)
    for number in (8, 9, 10):
        (folder / "offsets" / str(number)).write_text(f"v1\n{number}")
        (folder / "offsets" / f".{number}.crc").write_text("x")
    (folder / "metadata").write_text('{"id":"q"}')
    return folder


@pytest.fixture(scope="module")
def server(checkpoint: Path) -> Iterator[S3]:
    with s3() as made:
        made.put(checkpoint, ODD)
        yield made


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncegate_spark.spark.checkpoint.begun._said", set())
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION", "HADOOP_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.parametrize("scheme", ["s3a", "s3"])
def test_a_bucket_is_read_with_the_settings_of_s3a(server: S3, scheme: str) -> None:
    assert find_input(f"{scheme}://bucket/{ODD}", server.settings()) == FOUND


def test_a_buckets_own_settings_come_before_those_of_all(server: S3) -> None:
    own = {f"fs.s3a.bucket.bucket.{name.removeprefix('fs.s3a.')}": value for name, value in server.settings().items()}
    assert find_input(f"s3a://bucket/{ODD}", {**own, "fs.s3a.endpoint": "http://127.0.0.1:1"}) == FOUND


def test_an_endpoint_without_its_scheme_is_as_tls_is_set(server: S3) -> None:
    bare = server.settings(**{"fs.s3a.endpoint": server.address, "fs.s3a.connection.ssl.enabled": "false"})
    assert find_input(f"s3a://bucket/{ODD}", bare) == FOUND


def test_keys_come_from_the_environment_where_nothing_sets_them(server: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "reader")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    settings = {name: value for name, value in server.settings().items() if "key" not in name}
    assert find_input(f"s3a://bucket/{ODD}", settings) == FOUND


def test_an_address_of_pyarrow_names_the_place_by_itself(server: S3, checkpoint: Path) -> None:
    assert find_input("dbfs:/anything", {}, server.url(urllib.parse.quote(ODD))) == FOUND
    assert find_input(None, {}, checkpoint.as_uri()) == FOUND


def test_a_location_without_offsets_differs_from_an_unreadable_one(server: S3) -> None:
    with pytest.raises(NoOffsets, match=r"s3a://bucket/elsewhere \(at 127.0.0.1:\d+\) contains no offsets"):
        find_input("s3a://bucket/elsewhere", server.settings())
    with pytest.raises(OutOfReach, match=r"cannot be read: .*bucket does not exist"):
        find_input("s3a://another/c", server.settings())
    with pytest.raises(OutOfReach, match=r"cannot be read: .*NETWORK_CONNECTION"):
        find_input("s3a://bucket/c", server.settings(**{"fs.s3a.endpoint": "http://127.0.0.1:1"}))
    with pytest.raises(OutOfReach, match="does not support dbfs: file systems"):
        find_input("dbfs:/c")
    with pytest.raises(OutOfReach, match="Spark does not reveal its checkpoint"):
        find_input(None)


def test_no_error_contains_a_key() -> None:
    with pytest.raises(BadOption, match="cannot open checkpointUrl s4://bucket/c") as raised:
        find_input(None, {}, "s4://name:secret@bucket/c?access=secret")
    assert "secret" not in str(raised.value)
    assert raised.value.__suppress_context__


@pytest.mark.parametrize("spelling", ["webhdfs://{}/{}", "hdfs://127.0.0.1:8020/{1}", "hdfs://cluster/{1}", "/{1}"])
def test_hdfs_is_read_by_its_rest_interface(checkpoint: Path, spelling: str) -> None:
    with webhdfs(checkpoint.parent) as active, webhdfs(checkpoint, standby=True) as standby:
        settings = {
            "fs.defaultFS": "hdfs://cluster",
            "dfs.nameservices": "other, cluster",
            "dfs.ha.namenodes.cluster": "nn1,nn2,nn3",
            "dfs.namenode.http-address.cluster.nn1": "127.0.0.1:1",
            "dfs.namenode.http-address.cluster.nn2": standby.address,
            "dfs.namenode.http-address.cluster.nn3": active.address,
            "dfs.namenode.http-address": f"0.0.0.0:{active.server_port}",
        }
        assert find_input(spelling.format(active.address, ODD), settings) == FOUND
        with pytest.raises(NoOffsets, match=r"/elsewhere in HDFS at .* contains no offsets"):
            find_input(active.url("elsewhere"))
        assert find_input(None, {}, f"{active.url(urllib.parse.quote(ODD))}?user.name=me") == FOUND


def test_hdfs_with_kerberos_is_refused_as_unsupported(checkpoint: Path) -> None:
    with webhdfs(checkpoint, kerberos=True) as server, pytest.raises(OutOfReach, match="requires Kerberos"):
        find_input(server.url("c"))


def test_other_object_stores_are_opened_by_their_own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    host = "account.dfs.core.windows.net"
    key = {f"fs.azure.account.key.{host}": "c2VjcmV0"}
    assert str(open_store(CheckpointLocation.of(f"abfss://container@{host}/c"), key)) == f"abfss://container@{host}/c"
    with pytest.raises(OutOfReach, match="not of the form container@account"):
        open_store(CheckpointLocation.of("abfss://container/c"), {})
    assert (
        str(open_store(CheckpointLocation.of("gs://bucket/c"), {"fs.gs.auth.type": "UNAUTHENTICATED"}))
        == "gs://bucket/c"
    )
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    with pytest.raises(OutOfReach, match=r"export GOOGLE_APPLICATION_CREDENTIALS=/k.json"):
        open_store(CheckpointLocation.of("gs://bucket/c"), {"fs.gs.auth.service.account.json.keyfile": "/k.json"})


XML = """<?xml version="1.0" encoding="UTF-8" standalone="no"?><configuration>
<property><name>fs.defaultFS</name><value> hdfs://cluster </value><final>false</final></property>
<property><name>fs.s3a.endpoint</name><value>http://minio:9000</value></property>
<property><name>hadoop.secret</name><value>none of ours</value></property></configuration>"""


def test_settings_come_from_the_environments_files_and_only_what_opens_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "core-site.xml").write_text(XML)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert hadoop.of_environment() == {"fs.defaultFS": "hdfs://cluster", "fs.s3a.endpoint": "http://minio:9000"}


def test_of_several_folders_of_settings_the_first_that_names_one_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HADOOP_CONF_DIR before YARN_CONF_DIR, before SPARK_CONF_DIR, before SPARK_HOME/conf, as in Spark."""
    names = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME")
    for number, name in enumerate(names):
        folder = tmp_path / name / "conf"
        folder.mkdir(parents=True)
        settings = {"fs.defaultFS": f"hdfs://{name}", f"fs.s3a.{number}": name}
        text = "".join(f"<property><name>{key}</name><value>{one}</value></property>" for key, one in settings.items())
        (folder / "core-site.xml").write_text(f"<configuration>{text}</configuration>")
        monkeypatch.setenv(name, str(folder.parent if name == "SPARK_HOME" else folder))
    for name in names:
        assert hadoop.of_environment()["fs.defaultFS"] == f"hdfs://{name}"
        monkeypatch.delenv(name)
    assert hadoop.of_environment() == {}


def test_a_session_of_spark_connect_reads_only_its_own_settings() -> None:
    told = {"spark.hadoop.fs.s3a.endpoint": "http://minio:9000", "spark.app.name": "a", hadoop.CHECKPOINTS: "/c"}
    session = type("Session", (), {"__module__": "pyspark.sql.connect.session", "conf": SimpleNamespace(getAll=told)})()
    assert hadoop.of_session(session) == {"fs.s3a.endpoint": "http://minio:9000", hadoop.CHECKPOINTS: "/c"}


def made(settings: dict[str, str], monkeypatch: pytest.MonkeyPatch, **given: str) -> Any:
    """Returns the writer of a stream's batch, with the input that it has read."""
    monkeypatch.setattr(target, "check_target", lambda options, schema: AS_THEY_COME)
    source = source_of(settings)({"url": "http://127.0.0.1:1", "topic": "t", **given})
    writer = source.streamWriter(SCHEMA, False)
    assert isinstance(writer, StreamWriter)
    return writer.writer


def logged_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "oncegate_spark"]


def test_the_place_is_found_without_an_option(
    checkpoint: Path, server: S3, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    named = {hadoop.CHECKPOINTS: str(checkpoint.parent)}
    found = made(named, monkeypatch, queryName=ODD)
    assert (found.read, found.options.checkpoint) == (FOUND, str(checkpoint))
    assert made(server.settings(), monkeypatch, checkpointLocation=f"s3a://bucket/{ODD}").read == FOUND
    assert not logged_lines(caplog)
    assert made(named, monkeypatch).read is None
    assert made(named, monkeypatch).read is None
    assert made(named, monkeypatch, queryName="never run").read is None
    nowhere, elsewhere = logged_lines(caplog)
    assert "Spark does not reveal its checkpoint" in nowhere
    assert 'option("checkpointLocation"' in nowhere
    assert "never run contains no offsets" in elsewhere


def test_only_digests_that_are_needed_are_read_from_afar(server: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPENERS, "s3a", lambda place, settings: pytest.fail("it was opened"))
    found = made({}, monkeypatch, checkpointLocation="s3a://bucket/c", write="plain")
    assert found.options.checkpoint == "s3a://bucket/c"


def test_the_writer_of_a_commit_reads_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark sends the source to the process that commits; the one that began the batch has logged an unknown input."""
    monkeypatch.setattr(target, "check_target", lambda options, schema: pytest.fail("it was asked again"))
    carried = OncegateSource({"url": "http://127.0.0.1:1", "topic": "t", "checkpointLocation": str(tmp_path)})
    carried.__setstate__(dict(carried.__dict__))
    assert carried.streamWriter(SCHEMA, False).writer.read is None
    assert not logged_lines(caplog)
