"""The client in examples/go, written from the OpenAPI document alone, against a real gateway and an unreliable
network."""

import itertools
import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import Request, urlopen

import pytest

from demo.proxy import Proxy, Trap
from deploy.ports import free_port
from oncegate_spark import Gateway
from tests.support.faulty_proxy import Fault, FaultyProxy
from tests.support.gateway_process import GatewayProcess

pytestmark = pytest.mark.server
SOURCE = Path(__file__).parents[2] / "examples/go"
# Downloads nothing, neither modules nor another toolchain, and needs no C compiler.
ENVIRONMENT = {**os.environ, "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
SEED = int(os.environ.get("ONCEGATE_TEST_SEED", "20261121"))
FIX, STOP, RETRY, UNKNOWN = 2, 3, 4, 5
COUNT = itertools.count()


@pytest.fixture(scope="session", autouse=True)
def go() -> None:
    if shutil.which("go") is None or shutil.which("gofmt") is None:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say("no go on the path: the example in Go is not tested (Debian: apt-get install golang-go)")


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory, go: None) -> Path:
    built = tmp_path_factory.mktemp("go") / "oncelines"
    tool("go", "build", "-o", str(built), "./cmd/oncelines")
    return built


@pytest.fixture(scope="module")
def gateway_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("gateway")) as process:
        yield process


@pytest.fixture
def gateway(gateway_process: GatewayProcess) -> Iterator[Gateway]:
    with Gateway(gateway_process.url, f"go-{next(COUNT)}", timeout_ms=20_000) as client:
        client.create_namespace()
        yield client


def tool(*command: str, **environment: str) -> str:
    done = subprocess.run(command, cwd=SOURCE, env={**ENVIRONMENT, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Lines:
    """Runs of the program that append to one file."""

    def __init__(self, program: Path, folder: Path, namespace: str) -> None:
        self.program, self.folder, self.namespace = program, folder, namespace
        self.out = folder / "lines.txt"

    @property
    def written(self) -> Counter[str]:
        return Counter(self.out.read_text().splitlines()) if self.out.exists() else Counter()

    def append(self, port: int, lines: list[str], *more: str, ends: int = 0) -> tuple[Counter[str], str]:
        """Returns the program's counts and its standard error."""
        where = ("-url", f"http://127.0.0.1:{port}", "-namespace", self.namespace, "-out", str(self.out))
        text = "\n".join(lines) + "\n"
        done = subprocess.run([self.program, *where, *more], input=text, capture_output=True, text=True, timeout=120)
        assert done.returncode == ends, done.stderr
        counts: Counter[str] = Counter()
        for line in done.stdout.splitlines():
            counts.update(json.loads(line))
        return +counts, done.stderr


@pytest.fixture
def lines(program: Path, tmp_path: Path, gateway: Gateway) -> Lines:
    return Lines(program, tmp_path, gateway.namespace)


def numbered(count: int) -> list[str]:
    return [f"line {n}" for n in range(count)]


def at(kind: str, turn: int, act: Callable[[], object]) -> Callable[[str | None], Fault]:
    """Returns a rule that passes everything, and calls `act` before the n-th request of a kind."""
    seen: Counter[str | None] = Counter()

    def choose(found: str | None) -> Fault:
        seen[found] += 1
        if (found, seen[found]) == (kind, turn):
            act()
        return Fault.PASS

    return choose


def test_the_source_is_formatted_vetted_and_needs_the_standard_library_only() -> None:
    assert tool("gofmt", "-l", ".") == ""
    tool("go", "vet", "./...")
    assert (SOURCE / "go.mod").read_text() == "module oncegate.example/oncegate\n\ngo 1.19\n"


def test_its_own_tests_pass_against_a_real_gateway(gateway: Gateway, gateway_process: GatewayProcess) -> None:
    where = f"{gateway_process.url}/v1/namespaces/{gateway.namespace}"
    assert "SKIP" not in tool("go", "test", "-count=1", "-v", "./...", ONCEGATE_URL=where)


def test_a_line_is_written_once_within_a_run_and_over_runs(lines: Lines, gateway_process: GatewayProcess) -> None:
    first, _ = lines.append(gateway_process.port, ["a", "b", "a", "c"], "-chunk", "3")
    assert first == {"Written": 3, "Duplicates": 1}
    second, _ = lines.append(gateway_process.port, ["c", "d", "a"])
    assert second == {"Written": 1, "Duplicates": 2}
    assert lines.written == Counter("abcd")


@pytest.mark.parametrize("kind", ["claim", "complete"])
def test_a_lost_answer_is_asked_for_again_by_the_same_request(
    kind: str, lines: Lines, gateway_process: GatewayProcess
) -> None:
    struck: list[str] = []
    repeated: list[str] = []
    with Proxy(gateway_process.port) as proxy:
        proxy.arm(Trap(kind, lambda: True, struck.append, repeated.append))
        counts, _ = lines.append(proxy.port, numbered(10))
    assert len(struck) == 1
    assert repeated == struck
    assert counts == {"Written": 10}
    assert lines.written == Counter(numbered(10))


@pytest.mark.parametrize("walk", range(3))
def test_through_a_bad_network_every_line_is_written_once(
    walk: int, lines: Lines, gateway: Gateway, gateway_process: GatewayProcess
) -> None:
    print("ONCEGATE_TEST_SEED", SEED)
    rng = Random(SEED + walk)
    faults = [Fault.PASS, Fault.PASS, Fault.LOSE_REQUEST, Fault.LOSE_REPLY, Fault.DOUBLE]
    with FaultyProxy(gateway_process.port, lambda kind: rng.choice(faults)) as proxy:
        counts, _ = lines.append(proxy.port, numbered(60), "-chunk", "4")
    assert {fault for _, fault in proxy.seen} == set(faults)
    assert counts == {"Written": 60}
    assert lines.written == Counter(numbered(60))
    assert gateway.describe()["counters"]["open_claims"] == 0


def test_a_gateway_that_is_killed_is_ridden_out(program: Path, tmp_path: Path) -> None:
    """The kill comes before a claim arrives, and between a claim and its completion."""
    lines = Lines(program, tmp_path, "default")
    with GatewayProcess(tmp_path) as process:

        def restart() -> None:
            process.kill()
            process.start()

        for kind in ("claim", "complete"):
            with FaultyProxy(process.port, at(kind, 2, restart)) as proxy:
                more = [f"{kind} {line}" for line in numbered(9)]
                assert lines.append(proxy.port, more, "-chunk", "3")[0] == {"Written": 9}
        assert process.starts == 3
    assert set(lines.written.values()) == {1}


def test_what_another_attempt_holds_is_waited_for(
    lines: Lines, gateway: Gateway, gateway_process: GatewayProcess
) -> None:
    with gateway.attempt() as other:
        claimed = other.claim(["b"])
        with FaultyProxy(gateway_process.port, at("claim", 2, lambda: other.complete(claimed))) as proxy:
            counts, _ = lines.append(proxy.port, ["a", "b", "c"])
    assert counts == {"Written": 2, "Duplicates": 1}
    assert lines.written == Counter("ac")


def test_ids_of_a_dead_attempt_are_taken_over_and_counted(
    lines: Lines, gateway: Gateway, gateway_process: GatewayProcess
) -> None:
    gateway.attempt().claim(["b"], lease_ms=1_000)
    counts, _ = lines.append(gateway_process.port, ["a", "b"])
    assert counts == {"Written": 2, "Takeovers": 1}


def test_a_stop_ends_it_at_once(lines: Lines, gateway: Gateway, gateway_process: GatewayProcess) -> None:
    """The claim is released by another client; the program cannot know whether another one holds its lines now."""
    base = f"{gateway_process.url}/v1/namespaces/{gateway.namespace}"

    def release() -> None:
        claim = json_reply(f"{base}/ids:explain?id=a", "GET")["claim"]
        assert json_reply(f"{base}/claims/{claim}:release", "POST")["state"] == "RELEASED"

    with FaultyProxy(gateway_process.port, at("complete", 1, release)) as proxy:
        _, errors_shown = lines.append(proxy.port, ["a", "b", "c", "d"], "-chunk", "2", ends=STOP)
    assert "RELEASED_CLAIM (stop, effect none)" in errors_shown
    assert [kind for kind, _ in proxy.seen] == ["claim", "complete"]


def json_reply(url: str, method: str) -> Any:
    with urlopen(Request(url, method=method), timeout=30) as answer:
        return json.load(answer)


def test_a_gateway_that_has_forgotten_is_noticed_by_the_mark_it_is_brought(program: Path, tmp_path: Path) -> None:
    lines, mark = Lines(program, tmp_path, "default"), tmp_path / "mark"
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
    with GatewayProcess(tmp_path / "first") as first:
        lines.append(first.port, ["a"], "-mark", str(mark))
        first.kill()
        first.start()
        lines.append(first.port, ["b"], "-mark", str(mark))
    with GatewayProcess(tmp_path / "second") as second:
        _, errors_shown = lines.append(second.port, ["a"], "-mark", str(mark), ends=STOP)
    assert "LEDGER_BEHIND" in errors_shown
    assert lines.written == Counter("ab")


def test_a_request_that_is_to_be_mended_is_not_repeated(lines: Lines, gateway_process: GatewayProcess) -> None:
    with FaultyProxy(gateway_process.port, lambda kind: Fault.PASS) as proxy:
        _, errors_shown = lines.append(proxy.port, ["a", "", "b"], ends=FIX)
    assert "NULL_ID (fix, effect none)" in errors_shown
    assert len(proxy.seen) == 1
    assert not lines.written


def test_an_unknown_effect_differs_from_none_when_time_is_over(
    lines: Lines, gateway: Gateway, gateway_process: GatewayProcess
) -> None:
    with FaultyProxy(gateway_process.port, lambda kind: Fault.LOSE_REPLY) as proxy:
        _, errors_shown = lines.append(proxy.port, ["a"], "-timeout", "1s", ends=UNKNOWN)
    assert "effect unknown" in errors_shown
    assert gateway.explain("a")["state"] == "CLAIMED_LIVE"
    _, errors_shown = lines.append(free_port(), ["a"], "-timeout", "500ms", ends=RETRY)
    assert "effect none" in errors_shown
    assert not lines.written
