"""Log lines of a traced request contain its trace, and no log, span or metric contains an id, a payload or a token."""

import io
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest

from oncegate.app import running
from oncegate.ledgers.memory import MemoryLedger
from oncegate.runtime.logging import LibraryLog, LogObserver, open_log
from tests.support.http_app import ARROW, JSON, Served, request, settings, stream
from tests.support.http_requests import PRODUCE, RAW
from tests.support.memory_gateway import wait_until
from tests.support.otlp_receiver import Receiver

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
MARKED, PAYLOAD, TOKEN = "id-of-mrs-smith-8841", "secret-of-mrs-smith-1723", "5eed5eed5eed5eed5eed5eed5eed5eed"
NAMED = {"traceparent": f"00-{TRACE}-{CALLER}-01"}


@asynccontextmanager
async def logged(form: Any, **flags: Any) -> AsyncIterator[Served]:
    log = io.StringIO()
    async with running(settings(**flags), open_log(form, log)) as program:
        yield Served(program, log)


async def post(http: Served, path: str, message: object, **headers: str) -> Any:
    body = json.dumps(message).encode()
    return await http.send(request("POST", path, body, Content_Type=JSON, **NAMED, **headers))


async def test_a_line_about_a_traced_request_names_its_trace_and_span_as_json(receiver: Receiver) -> None:
    async with logged("json") as http:
        rows = stream(pa.record_batch({"v": ["a"]}))
        plain = request("POST", PRODUCE, rows, Content_Type=ARROW, **RAW, **NAMED)
        assert (await http.send(plain)).status == 200
    lines = [json.loads(line) for line in http.log.getvalue().splitlines()]
    (line,) = [line for line in lines if line["event"] == "plain_write"]
    assert (line["trace_id"], line["level"], line["namespace"]) == (TRACE, "warning", "default")
    assert line["span_id"] in {span.span_id for span in receiver.of(TRACE)}
    assert all("trace_id" not in other for other in lines if other is not line), "no line has another's trace"


def test_a_library_logs_in_the_form_of_the_gateway() -> None:
    as_json, as_text = io.StringIO(), io.StringIO()
    logger, silent = logging.Logger("uvicorn.error"), logging.Logger("aiokafka.conn")
    for handler in (LibraryLog(open_log("json", as_json)), LibraryLog(open_log("text", as_text))):
        logger.addHandler(handler)
        silent.addHandler(handler)
    logger.info("below the level")
    silent.error("an attempt failed")
    logger.warning("broker %s closed the connection", 1)
    line = json.loads(as_json.getvalue())
    assert (line["event"], line["level"], line["logger"]) == ("library", "warning", "uvicorn.error")
    assert line["message"] == "broker 1 closed the connection"
    logger.error("no connection can be accepted")
    assert json.loads(as_json.getvalue().splitlines()[1])["level"] == "error"
    assert as_text.getvalue().splitlines()[0].endswith("] broker 1 closed the connection")
    assert "logger" not in as_text.getvalue()


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_traceback_of_a_bug_shows_where_and_not_what_variables_held(form: Any) -> None:
    log = io.StringIO()

    def broken(key: str, body: bytes) -> None:
        raise ZeroDivisionError("a bug")

    try:
        broken(TOKEN, PAYLOAD.encode())
    except ZeroDivisionError as error:
        LogObserver(open_log(form, log)).event("request_failed", error=error)
    for word in ("a bug", "ZeroDivisionError", "test_logs.py", "broken"):
        assert word in log.getvalue()
    assert (TOKEN in log.getvalue(), PAYLOAD in log.getvalue()) == (False, False)


@pytest.mark.parametrize("form", ["json", "text"])
async def test_no_log_span_or_metric_contains_an_id_a_payload_or_a_token(form: str, receiver: Receiver) -> None:
    async with logged(form, open_claims=2) as http:
        scraped = await write_refuse_and_explain(http)
    told = {"log": http.log.getvalue().encode(), "spans": b"".join(receiver.raw), "metrics": scraped}
    assert len(receiver.of(TRACE)) > 10, "everything was traced"
    for where, text in told.items():
        for word in (MARKED, PAYLOAD, TOKEN, MARKED.encode().hex()):
            assert word.encode() not in text, (where, word)
            assert bytes.fromhex(TOKEN) not in text, where


async def write_refuse_and_explain(http: Served) -> bytes:
    """Claims, takes, produces, looks up and explains a marked id, also in refused ways. Returns the metrics."""
    ids = "/v1/namespaces/default/ids"
    claim = {"token": TOKEN, "call": 0, "ids": [MARKED], "payloads": [PAYLOAD]}
    first = await post(http, f"{ids}:claim", claim)
    assert first.status == 200, first.body
    name = first.json["claim"]
    statuses = [
        (await post(http, f"{ids}:claim", {**claim, "payloads": ["another"]})).status,  # TOKEN_REUSED
        (await post(http, f"{ids}:claim", {**claim, "ids": [MARKED, None]})).status,  # NULL_ID
        (await post(http, f"{ids}:claim", {**claim, "more": MARKED})).status,  # BAD_REQUEST
        (await http.send(request("POST", f"/v1/namespaces/default/claims/{name}:complete", **NAMED))).status,
        (await post(http, f"{ids}:claim", {**claim, "call": 1, "payloads": ["another"]})).status,  # CONFLICT
        (await post(http, f"{ids}:take", {"owner": MARKED, "ids": [MARKED]})).status,
        (await post(http, f"{ids}:lookup", {"ids": [MARKED]})).status,
        (await http.send(request("GET", f"{ids}:explain?id={MARKED}", **NAMED))).status,
        (await http.send(request("GET", f"/v1/namespaces/default/{MARKED}", **NAMED))).status,
        (await http.send(request("POST", f"/v1/namespaces/default/claims/{MARKED}:complete", **NAMED))).status,
    ]
    record = {"order": MARKED, "note": PAYLOAD}
    produced = {"token": TOKEN, "call": 9, "id_col": ["order"], "records": [record]}
    statuses += [(await post(http, PRODUCE, produced)).status for _ in range(2)]
    assert statuses == [422, 422, 400, 200, 200, 200, 200, 200, 404, 400, 200, 200]
    return (await http.send(request("GET", "/metrics", Accept="application/openmetrics-text"))).body


async def test_work_begun_by_a_request_is_in_its_trace_no_longer_than_the_request(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: object) -> None:
        raise OSError(5, "Input/output error")

    async with logged("json") as http:
        made = request("PUT", "/v1/namespaces/mail", b"{}", Content_Type=JSON, **NAMED)
        assert (await http.send(made)).status == 201
        # The owner's tasks began in that request, and continue; one of them logs the append that fails.
        monkeypatch.setattr(MemoryLedger, "append", lost)
        rows = stream(pa.record_batch({"v": ["a"]}))
        path = "/v1/namespaces/mail/topics/t/records:produce"
        sent = request("POST", path, rows, Content_Type=ARROW, **RAW, traceparent=f"00-{'e' * 32}-{CALLER}-00")
        assert (await http.send(sent)).status == 503
        await wait_until(lambda: "ledger_lost" in http.log.getvalue())
        monkeypatch.undo()
    lines = [line for line in http.log.getvalue().splitlines() if "ledger_lost" in line]
    assert lines
    assert not any("trace_id" in json.loads(line) for line in lines)
    assert "PUT /v1/namespaces/{namespace}" in {span.name for span in receiver.of(TRACE)}
