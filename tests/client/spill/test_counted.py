"""Each use of on_down="spill" is counted by a real gateway and listed for operators, through both clients."""

import http.client
import json
import logging
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from deploy.ports import free_port
from oncegate_spark import Gateway, Refused, Spill, Unanswered
from tests.support.clients import Connect
from tests.support.stub_gateway import LOST, Answer, Asked, StubGateway, problem

pytestmark = pytest.mark.server
AT_MS, DAY_MS = 1_795_219_200_000, 86_400_000
# The error of the previous version for every unknown parameter.
NOT_TAKEN = "the parameter spilled_ms is not taken here with a body of application/vnd.apache.arrow.stream"


def rows(*ids: str) -> pa.Table:
    return pa.table({"id": ids})


def spill_at(folder: Path, days: int = 0) -> Spill:
    """Returns the folder in a process whose clock is `days` days ahead."""
    return Spill(folder, wall_ms=lambda: AT_MS + days * DAY_MS)


def laid_down(spill: Spill, connect: Connect, gateway: Gateway, *calls: tuple[str, ...]) -> None:
    """Spills rows of several calls while the gateway is down."""
    with connect(f"http://127.0.0.1:{free_port()}", gateway.namespace, on_down="spill", spill=spill) as away:
        for ids in calls:
            assert away.attempt().produce("t", rows(*ids), id_col="id").spilled == len(ids)


def exchanged(gateway: Gateway, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
    connection = http.client.HTTPConnection(urlsplit(gateway.url).netloc, timeout=20)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        given = {name: value for name, value in answer.getheaders() if name.lower() != "content-length"}
        return Answer(answer.status, answer.read(), given)
    finally:
        connection.close()


def trail_lines(gateway: Gateway) -> list[tuple[str, str, int]]:
    """Returns the lines of the trail: action, subject and number."""
    answer = exchanged(gateway, "GET", f"/v1/namespaces/{gateway.namespace}/audit")
    return [(one["action"], one["subject"], one["changed"]) for one in json.loads(answer.body)["actions"]]


def counted(gateway: Gateway) -> Any:
    return gateway.describe()["counters"]["spilled_rows"]


def test_a_folder_that_is_drained_is_one_line_of_the_trail_with_since_when_its_rows_had_waited(
    gateway: Gateway, connect: Connect, tmp_path: Path
) -> None:
    gateway.attempt().produce("t", rows("known"), id_col="id")
    for day in range(3):
        with spill_at(tmp_path, day) as spill:
            laid_down(spill, connect, gateway, (f"{day}", f"{day} too"), ("known",))
    assert (counted(gateway), trail_lines(gateway)) == (0, [])
    with spill_at(tmp_path) as spill, connect(gateway.url, gateway.namespace, on_down="spill", spill=spill) as back:
        drained = back.drain_spill()
        assert (drained.entries, drained.rows, drained.suppressed) == (6, 6, 3)
    span = "rows spilled from 2026-11-21T00:00:00.000Z until 2026-11-23T00:00:00.000Z"
    assert trail_lines(gateway) == [("write spilled rows", f"topic t: {span}", 6)]
    assert counted(gateway) == 6


def test_rows_queued_after_waiting_ones_are_reported_too_and_rows_that_never_waited_are_not(
    gateway: Gateway, connect: Connect, tmp_path: Path
) -> None:
    with spill_at(tmp_path) as spill:
        laid_down(spill, connect, gateway, ("a",))
        with connect(gateway.url, gateway.namespace, on_down="spill", spill=spill) as back:
            for one in "bcd":
                assert back.attempt().produce("t", rows(one), id_col="id").rows == 1
    assert [changed for *_, changed in trail_lines(gateway)] == [2]
    assert counted(gateway) == 2


def test_an_entry_whose_reply_is_lost_is_counted_once(gateway: Gateway, connect: Connect, tmp_path: Path) -> None:
    lost = 0

    def losing(asked: Asked) -> Answer:
        nonlocal lost
        answer = exchanged(gateway, asked.method, asked.path, asked.body, **asked.headers)
        lost += 1
        return answer if lost > 2 else LOST

    with spill_at(tmp_path) as spill, StubGateway(otherwise=losing) as stub:
        laid_down(spill, connect, gateway, ("a", "b"))
        with connect(stub.url, gateway.namespace, on_down="spill", spill=spill) as back:
            with pytest.raises(Unanswered):
                back.drain_spill()
            assert (back.drain_spill().suppressed, spill.waiting) == (2, 0)
    assert (counted(gateway), [changed for *_, changed in trail_lines(gateway)]) == (2, [2])


def test_a_gateway_of_the_previous_version_gets_the_rows_and_a_log_line_reports_that_they_are_not_counted(
    gateway: Gateway, connect: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def older(asked: Asked) -> Answer:
        if "spilled_ms" in asked.path:
            return problem(400, "BAD_REQUEST", "fix", detail=NOT_TAKEN)
        return exchanged(gateway, asked.method, asked.path, asked.body, **asked.headers)

    with spill_at(tmp_path) as spill, StubGateway(otherwise=older) as stub:
        laid_down(spill, connect, gateway, ("a", "b"), ("c",))
        with (
            caplog.at_level(logging.WARNING, "oncegate_spark"),
            connect(stub.url, gateway.namespace, on_down="spill", spill=spill) as back,
        ):
            assert (back.drain_spill().rows, spill.waiting) == (3, 0)
    assert "so they are not counted" in caplog.text
    assert (counted(gateway), trail_lines(gateway)) == (0, [])


def test_rows_that_are_refused_for_another_reason_are_not_tried_without_it(
    gateway: Gateway, connect: Connect, tmp_path: Path
) -> None:
    gateway.attempt().produce("t", pa.table({"id": [1]}), id_col="id")
    asked: list[str] = []

    def noted(one: Asked) -> Answer:
        asked.append(one.path)
        return exchanged(gateway, one.method, one.path, one.body, **one.headers)

    with spill_at(tmp_path) as spill, StubGateway(otherwise=noted) as stub:
        laid_down(spill, connect, gateway, ("a",))
        with (
            connect(stub.url, gateway.namespace, on_down="spill", spill=spill) as back,
            pytest.raises(Refused, match="SCHEMA"),
        ):
            back.drain_spill()
    assert [f"spilled_ms={AT_MS}" in path for path in asked] == [True]
