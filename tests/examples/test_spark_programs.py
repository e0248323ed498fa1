"""examples/foreach_batch.py and spark_kafka.py in one Spark: interrupted in a batch, rerun, each effect once."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from examples import foreach_batch, spark_kafka
from oncegate_spark import Gateway
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker, one_broker

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]
ORDERS = {"a-1": 1, "a-2": 1, "a-3": 1}


def unfinished(folder: Path) -> None:
    """Deletes the last entry of the commit log, as if the driver had died before writing it: Spark reruns that
    batch."""
    last = max((folder / "checkpoint/commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with one_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


def counted(gateway: Gateway, topic: str, column: str) -> Counter[Any]:
    table = gateway.read(topic)
    assert table is not None
    return Counter(table.column(column).to_pylist())


def test_a_batch_that_fails_between_two_writes_has_each_of_them_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, faults = foreach_batch.write, iter([True])

    def failing(df: Any, url: str, topic: str) -> None:
        if topic == foreach_batch.SUMS and next(faults, False):
            raise OSError("died between the two writes")
        write(df, url, topic)

    monkeypatch.setattr(foreach_batch, "write", failing)
    with GatewayProcess(tmp_path) as process, Gateway(process.url, foreach_batch.NAMESPACE) as gateway:
        gateway.create_namespace()
        with pytest.raises(StreamingQueryException, match="died between"):
            foreach_batch.run(spark, process.url, tmp_path / "orders")
        assert sum(counted(gateway, "orders", "order").values()) in (1, 2)  # whichever file Spark took first
        foreach_batch.run(spark, process.url, tmp_path / "orders")
        unfinished(tmp_path / "orders")
        foreach_batch.run(spark, process.url, tmp_path / "orders")
        assert counted(gateway, "orders", "order") == ORDERS
        assert counted(gateway, "sums", "cents") == {1550: 1, 9900: 1}


def test_a_batch_that_spark_repeats_is_in_the_kafka_topic_once(spark: Any, tmp_path: Path, broker: Broker) -> None:
    topic = broker.topic().topic
    url = f"kafka://{broker.cluster.bootstrap}/examples?replication=1&min_insync=1&bare_key=yes"
    with GatewayProcess(tmp_path, ledger=url) as process, Gateway(process.url, spark_kafka.NAMESPACE) as gateway:
        gateway.create_namespace()
        spark_kafka.run(spark, process.url, tmp_path / "orders", topic)
        unfinished(tmp_path / "orders")
        spark_kafka.run(spark, process.url, tmp_path / "orders", topic)
    values = Counter(broker.values(topic))
    assert values == {
        b'{"order":"a-1","cents":1200}': 1,
        b'{"order":"a-2","cents":350}': 1,
        b'{"order":"a-3","cents":9900}': 1,
    }
