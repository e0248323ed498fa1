"""A gateway whose process may open few files: connections beyond its share are refused, and it continues to serve."""

import http.client
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from deploy.ports import free_port
from oncegate.runtime.process import AT_REST, PER_NAMESPACE, PROBES, needed, shared_out
from oncegate.transports.http.server.protocol import refused_max
from tests.support.gateway_process import GatewayProcess

FILES_MAX = 64
CONNECTIONS = 41


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path, files_max=FILES_MAX) as gateway:
        yield gateway


@pytest.mark.server
def test_connections_beyond_the_descriptors_are_refused_and_nothing_else_suffers(gateway: GatewayProcess) -> None:
    limit = gateway.ask("GET", "/v1/limits")[1]["connections"]
    assert 0 < limit < CONNECTIONS
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), timeout=20))
        status, problem = gateway.ask("PUT", "/v1/namespaces/one")
        assert (status, problem["code"], problem["effect"]) == (503, "OVERLOADED", "none")
        assert f"{limit} connections are open" in problem["detail"]
    assert ask_until_admitted(gateway, "GET", "/healthz/ready")[1]["namespaces"] == {"default": "SERVING"}


@pytest.mark.server
def test_the_last_connection_within_the_limit_is_answered(gateway: GatewayProcess) -> None:
    limit = ask_until_admitted(gateway, "GET", "/v1/limits")[1]["connections"]
    with ExitStack() as stack:
        for _ in range(limit - 1):
            stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), timeout=20))
        assert ask_until_admitted(gateway, "GET", "/v1/limits")[0] == 200


def ask_until_admitted(gateway: GatewayProcess, method: str, path: str) -> tuple[int, dict[str, Any]]:
    """Retries, because the gateway's loop notices closed connections only at its next iteration."""
    for _ in range(1_000):
        status, answer = gateway.ask(method, path)
        if answer.get("code") != "OVERLOADED":
            return status, answer
    raise AssertionError("the connections are closed, and it refuses still")


@pytest.mark.server
def test_probes_on_their_own_port_are_answered_whatever_connections_are_open(tmp_path: Path) -> None:
    port = free_port()
    with GatewayProcess(tmp_path, "--health-port", str(port), files_max=FILES_MAX + PROBES) as gateway:
        with ExitStack() as stack:
            for _ in range(CONNECTIONS):
                stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), timeout=20))
            assert gateway.ask("GET", "/healthz/live")[0] == 503
            for name in ("live", "ready", "startup"):
                assert probe(port, f"/healthz/{name}") == 200
            for _ in range(3 * CONNECTIONS):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            assert probe(port, "/healthz/live") == 200
            assert len(psutil.Process(gateway.pid).net_connections()) <= FILES_MAX + PROBES
        assert gateway.stop() == 0


def probe(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.server
def test_namespaces_beyond_the_descriptors_are_refused_and_the_same_limit_serves_again(gateway: GatewayProcess) -> None:
    limit = gateway.ask("GET", "/v1/limits")[1]["namespaces"]
    for number in range(1, limit):
        assert gateway.ask("PUT", f"/v1/namespaces/n{number}")[0] == 201
    status, problem = gateway.ask("PUT", "/v1/namespaces/one-more")
    assert (status, problem["code"], problem["action"], problem["effect"]) == (
        429,
        "TOO_MANY_NAMESPACES",
        "fix",
        "none",
    )
    assert gateway.ask("PUT", "/v1/namespaces/default")[0] == 200, "what there is may be set up"
    gateway.kill()
    gateway.start()
    assert set(gateway.ask("GET", "/healthz/ready")[1]["namespaces"].values()) == {"SERVING"}


@pytest.mark.server
def test_a_limit_too_low_for_the_namespaces_there_are_is_refused_with_the_number_to_set(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as gateway:
        for number in range(4):
            assert gateway.ask("PUT", f"/v1/namespaces/n{number}")[0] == 201
        assert gateway.stop() == 0
    command = f"ulimit -n {FILES_MAX}; exec {gateway.command}"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert f"ulimit -n {needed(5)}" in ended.stderr


@pytest.mark.parametrize("limit", [64, 256, 1_024, 4_096, 20_000, 1 << 20])
@pytest.mark.parametrize("kept", [0, PROBES])
def test_the_shares_together_are_below_the_limit(limit: int, kept: int) -> None:
    limit = max(limit + kept, needed(1, kept))
    budget = shared_out(limit, 4_096, 1_000, kept)
    streams = limit // 8
    shares = (
        budget.connections
        + refused_max(budget.connections)
        + PER_NAMESPACE * budget.namespaces
        + budget.backlog
        + streams
    )
    assert shares + AT_REST + kept <= limit
    assert min(budget.connections, budget.namespaces, budget.backlog) >= 1


@pytest.mark.parametrize("namespaces", [1, 5, 330, 1_000])
def test_the_documented_number_of_descriptors_is_enough(namespaces: int) -> None:
    assert shared_out(needed(namespaces), 4_096, namespaces).namespaces == namespaces
    assert shared_out(needed(namespaces, PROBES), 4_096, namespaces, PROBES).namespaces == namespaces
