"""The previous version and this one, each with the other's client: `make versions`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import oncegate
from deploy.ports import free_port
from oncegate_spark import Gateway, Spill
from tests.support.door_scenarios import DOORS, SCENARIOS
from tests.support.gateway_process import GatewayProcess
from tests.versions import history
from tests.versions.previous import THIS, VERSION, Version, build, environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_600)]
# The previous version's own client tests, which define the behaviour that its users had.
OF_THE_CLIENT = ("tests/client/sync", "tests/client/aio")
# The previous version refuses these newer requests with BAD_REQUEST.
NEW_SCENARIOS = {"sequences with payloads are compared until they are acked"}
# Tests of the previous version that import inner modules, which this client has moved.
INNER = tuple(f"tests/client/sync/test_{name}.py" for name in ("firsts", "payloads", "produce_by_id"))
# Inner names of this client's modules that the other tests of the previous version import under another name.
RENAMED = {"oncegate_spark.protocol.names": ("Name", "BatchName")}
# Modules below `oncegate_spark` that are now part of another one.
MERGED = {
    "protocol.busy": "protocol.effort",
    "protocol.calls.requests": "protocol.calls.steps",
    "protocol.calls.replies": "protocol.calls.steps",
    "protocol.calls.spilled": "protocol.calls.attempt",
    "protocol.calls.look_ups": "protocol.calls.namespace",
    "protocol.packed.firsts": "protocol.packed",
    "protocol.packed.verdicts": "protocol.packed",
    "sync.response": "sync.connection",
    "spark.options.members": "spark.options.advice",
    "spark.writers.columns.widening": "spark.writers.columns.planning",
    "direct.record": "direct.transaction",
    "direct.refusals": "direct.transaction",
    "delivery.functions": "delivery.sink",
    "delivery.resolver": "delivery.deliver",
    "delivery.writing": "delivery.deliver",
    "delivery.kafka_reader": "delivery.kafka",
    "formats.avro_types": "formats.avro",
    "formats.arrow_rows": "formats.values",
    "formats.spark_column": "formats.values",
    "spark.audit.count": "spark.audit",
    "spark.audit.report": "spark.audit",
    "spark.checkpoint.objects": "spark.checkpoint.stores",
    "spark.checkpoint.places": "spark.checkpoint.hadoop",
    "spark.readers.fetch": "spark.readers.common",
    "spark.sources.kafka": "spark.kafka_source",
    "spark.verify.compare": "spark.verify",
    "spark.verify.id_text": "spark.verify",
    "spark.verify.report": "spark.verify",
    "spark.writers.columns.row_size": "spark.writers.columns.planning",
    "spill.stops": "spill.entry",
    "spill.lock": "spill.folder",
    "tracing.spans": "tracing",
    "tracing.context": "tracing",
    "spark.writers.deliveries.settler": "spark.writers.settler",
}
PLUGIN = f"""
import importlib, sys
for old, new in {MERGED!r}.items():
    try:
        importlib.import_module("oncegate_spark." + old)
    except ModuleNotFoundError:
        try:
            sys.modules["oncegate_spark." + old] = importlib.import_module("oncegate_spark." + new)
        except ModuleNotFoundError:
            pass  # the client of the version before has neither
for module, (old, new) in {RENAMED!r}.items():
    loaded = importlib.import_module(module)
    if not hasattr(loaded, old):
        setattr(loaded, old, getattr(loaded, new))
"""
SERVER_FIRST = pytest.mark.parametrize("server_is_new", [True, False], ids=["new server", "old server"])


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Version:
    if os.environ.get("NEEDS_PREVIOUS") != "true":
        pytest.skip("`make versions` builds the version before from its commit")
    return build(tmp_path_factory.mktemp("previous"))


def sides(old: Version, server_is_new: bool) -> tuple[Version, Version, str]:
    """Returns server, client, and the server's version."""
    return (THIS, old, oncegate.__version__) if server_is_new else (old, THIS, VERSION)


@SERVER_FIRST
def test_the_scenarios_of_both_doors_are_answered_across_versions(
    old: Version, server_is_new: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, client, version = sides(old, server_is_new)
    grpc_port = free_port()
    monkeypatch.setenv("PYTHONPATH", environment(server, server, THIS)["PYTHONPATH"])
    with GatewayProcess(tmp_path, "--grpc-port", str(grpc_port)) as served:
        assert served.ask("GET", "/version")[1]["version"] == version
        command = [sys.executable, "-m", "tests.versions.asking", str(served.port), str(grpc_port)]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment(client, client, THIS), capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    answers, new = json.loads(done.stdout), set() if server_is_new else NEW_SCENARIOS
    assert {name: doors for name, doors in answers.items() if name not in new} == {
        name: {door: [wanted for *_, wanted in steps] for door in DOORS}
        for name, steps in SCENARIOS.items()
        if name not in new
    }
    assert all("BAD_REQUEST" in answers[name][door] for name in new for door in DOORS)


@SERVER_FIRST
def test_what_users_of_the_old_client_had_holds_across_versions(
    old: Version, server_is_new: bool, tmp_path: Path
) -> None:
    server, client, _ = sides(old, server_is_new)
    own = environment(server, client, old)
    (tmp_path / "renamed_names.py").write_text(PLUGIN)
    own["PYTHONPATH"] = f"{own['PYTHONPATH']}:{tmp_path}"
    where = "import oncegate, oncegate_spark; print(oncegate.__version__, oncegate_spark.__version__)"
    output = subprocess.run([sys.executable, "-c", where], env=own, cwd=old.tree, capture_output=True, check=True)
    wanted = (oncegate.__version__, VERSION)
    assert output.stdout.decode().split() == list(wanted if server_is_new else wanted[::-1])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "renamed_names", *OF_THE_CLIENT]
    command += [] if server_is_new else [f"--ignore={path}" for path in INNER]
    done = subprocess.run(command, cwd=old.tree, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8_000:]
    assert " passed" in done.stdout


def test_the_version_before_opens_what_this_one_wrote(
    old: Version, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version with new entries has to change this test, and the promise in docs/operations/upgrade.md."""
    with GatewayProcess(tmp_path) as served, Gateway(served.url) as gateway:
        history.write(gateway)
        wanted = history.answers_about_history(gateway)
    monkeypatch.setenv("PYTHONPATH", environment(old, old, THIS)["PYTHONPATH"])
    with GatewayProcess(tmp_path) as earlier, Gateway(earlier.url) as gateway:
        assert earlier.ask("GET", "/version")[1]["version"] == VERSION
        assert history.answers_about_history(gateway) == wanted


def test_rows_that_this_client_spilled_are_written_by_the_version_before_into_a_ledger_that_knows_of_such(
    old: Version, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The previous version does not accept `spilled_ms` and ignores it in entries."""
    with Spill(tmp_path / "spill") as spill:
        for server, ids, written in ((THIS, ["a", "b"], 2), (old, ["b", "c"], 1)):
            with Gateway(f"http://127.0.0.1:{free_port()}", on_down="spill", spill=spill) as away:
                assert away.attempt().produce("t", pa.table({"id": ids}), id_col="id").spilled == len(ids)
            monkeypatch.setenv("PYTHONPATH", environment(server, server, THIS)["PYTHONPATH"])
            with GatewayProcess(tmp_path) as served:
                with Gateway(served.url, on_down="spill", spill=spill) as back:
                    assert (back.drain_spill().rows, spill.waiting) == (written, 0)
                assert served.stop() == 0
