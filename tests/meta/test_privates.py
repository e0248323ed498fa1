"""No file reads a private member of another object: what others need is public, and says what it is."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tree import sources

ROOT = Path(__file__).parents[2]
CODE = sources("service", "spark_client")
# A named tuple's public methods begin with an underscore, so that they are no fields.
NAMED_TUPLE = {"_replace", "_fields", "_asdict", "_make"}
# Where a library offers no public way, by file.
FORCED = {
    "service/oncegate/index/table/jit.py": {"_cache", "_cache_file", "_source_stamp", "_version"},
    "service/oncegate/ledgers/kafka/transactions/producer.py": {
        "_batches",
        "_closed",
        "_conns",
        "_do_txn_commit",
        "_drain_waiter",
        "_message_accumulator",
        "_sender",
        "_txn_manager",
    },
    "service/oncegate/ledgers/kafka/watch.py": {"_do_sasl_handshake"},
    "service/oncegate/transports/http/server/protocol.py": {"_start_asgi_task"},
    "service/oncegate/runtime/last_resort.py": {"_exit"},
    "spark_client/oncegate_spark/kafka_client.py": {
        "_AUTHENTICATION",
        "_FENCED",
    },  # librdkafka's own error codes are named so
    "spark_client/oncegate_spark/delivery/kafka_reader.py": {"_PARTITION_EOF"},
    "spark_client/oncegate_spark/spark/assign_ids.py": {"_jdf"},
    "spark_client/oncegate_spark/spark/assign_sequences.py": {"_jdf"},
    "spark_client/oncegate_spark/spark/writers/explain_job.py": {"_jdf"},
    "spark_client/oncegate_spark/spark/checkpoint/hadoop.py": {"_jsparkSession", "_jvm"},
    "spark_client/oncegate_spark/spark/checkpoint/session.py": {"_jsparkSession", "_jvm"},
}


def private_reads(source: str) -> Iterator[str]:
    """The name of every private member that is read, but for the own ones of an object or class."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.startswith("__"):
            continue
        is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        if not is_own and node.attr not in NAMED_TUPLE:
            yield node.attr


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_private_member_of_another_object_is_read(path: Path) -> None:
    allowed = FORCED.get(str(path.relative_to(ROOT)), set())
    assert not set(private_reads(path.read_text())) - allowed


def test_every_exception_is_still_needed() -> None:
    for name, members in FORCED.items():
        assert set(private_reads((ROOT / name).read_text())) == members, name


def test_a_private_read_is_seen_wherever_it_stands() -> None:
    source = "def f(a, self):\n    a.b._c = self._d\n    return a._e()._f, self.g._h, a._replace, a.__class__\n"
    assert sorted(private_reads(source)) == ["_c", "_e", "_f", "_h"]
