"""No file reads a private member of another object: a shared member is public and documented."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.support.tree import sources

ROOT = Path(__file__).parents[2]
CODE = sources("service", "spark_client")
# A named tuple's public methods begin with an underscore, so that they are not fields.
NAMED_TUPLE = {"_replace", "_fields", "_asdict", "_make"}
# Exceptions by file, for libraries that offer no public way.
FORCED = {
    "service/oncegate/index/table/jit.py": {"_cache", "_cache_file", "_source_stamp", "_version"},
    "service/oncegate/ledgers/kafka/client.py": {"_do_sasl_handshake"},
    "service/oncegate/transports/http/server/protocol.py": {"_start_asgi_task"},
    "service/oncegate/runtime/process.py": {"_exit"},
    "spark_client/oncegate_spark/kafka_client.py": {
        "_AUTHENTICATION",
        "_FENCED",
    },  # librdkafka's own names of error codes
    "spark_client/oncegate_spark/delivery/kafka.py": {"_PARTITION_EOF"},
    "spark_client/oncegate_spark/spark/assign_ids.py": {"_jdf"},
    "spark_client/oncegate_spark/spark/assign_sequences.py": {"_jdf"},
    "spark_client/oncegate_spark/spark/writers/explain_job.py": {"_jdf"},
    "spark_client/oncegate_spark/spark/checkpoint/hadoop.py": {"_jsparkSession", "_jvm"},
    "spark_client/oncegate_spark/spark/checkpoint/session.py": {"_jsparkSession", "_jvm"},
    "spark_client/oncegate_spark/spark/kafka_source.py": {"_jvm"},
}


def private_reads(source: str) -> Iterator[str]:
    """Yields the name of every private member that is read, except those of `self` and `cls`."""
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


def test_a_private_read_is_seen_wherever_it_is() -> None:
    source = "def f(a, self):\n    a.b._c = self._d\n    return a._e()._f, self.g._h, a._replace, a.__class__\n"
    assert sorted(private_reads(source)) == ["_c", "_e", "_f", "_h"]


# Libraries whose documentation allows derived classes.
BASES = {"msgspec", "pydantic", "pydantic_settings"}
# Libraries whose internals are read or written without a derived class.
INSIDE = {"numba", "llvmlite"}


def modules_derived_from(source: str) -> Iterator[str]:
    """Yields the module of every base class, and of every module in which an attribute is set."""
    tree, modules = ast.parse(source), dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules |= {one.asname or one.name: node.module for one in node.names}
        if isinstance(node, ast.Import):
            modules |= {(one.asname or one.name).partition(".")[0]: one.name for one in node.names}
    for node in ast.walk(tree):
        bases = node.bases if isinstance(node, ast.ClassDef) else []
        written = [one for one in getattr(node, "targets", []) if isinstance(one, ast.Attribute)]
        for one in [*bases, *written]:
            if (name := re.split(r"[.\[(]", ast.unparse(one))[0]) in modules:
                yield modules[name].partition(".")[0]


def test_a_library_whose_inside_is_used_has_an_upper_bound() -> None:
    """Without a bound, a newer version would install and then fail in its internals."""
    used = {name for path in CODE for name in modules_derived_from(path.read_text())} | INSIDE
    foreign = used - BASES - set(sys.stdlib_module_names) - {"oncegate", "oncegate_spark"}
    assert {"uvicorn", "numba", "aiokafka", "pyspark"} <= foreign
    projects = [
        tomllib.loads((ROOT / name).read_text())["project"]
        for name in ("pyproject.toml", "spark_client/pyproject.toml")
    ]
    lines = [one for project in projects for one in project["dependencies"]]
    lines += [one for project in projects for extra in project["optional-dependencies"].values() for one in extra]
    lines += [line for path in (ROOT / "requirements").glob("*.in") for line in path.read_text().splitlines()]
    for module in sorted(foreign):
        named = {one.lower().replace("_", "-") for one in packages_distributions()[module]}
        wanted = [line for line in lines if re.split(r"[\[<>=! ]", line)[0] in named]
        assert wanted, f"nothing asks for {module}"
        assert not [line for line in wanted if not re.search(r"<|==", line.partition("#")[0])], module
