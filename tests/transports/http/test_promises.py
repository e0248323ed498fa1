"""The promises by namespace, because its settings may weaken those of the gateway."""

import json
from typing import Any

import pytest

from oncegate.transports.promises import promise_of, promised
from tests.support.http_app import Http, open_http

NS = "/v1/namespaces/default"
BOUNDED = "at least once, duplicates bounded by takeovers"
UNCHECKED = f"{BOUNDED} and by claims that pass unchecked while the ledger is down"
AS_EVER = {"staged": "effectively once", "ids": "effectively once", "claim": BOUNDED, "plain": "at least once"}


async def configured(http: Http, **settings: Any) -> None:
    reply = await http.call("PUT", NS, json.dumps(settings).encode(), {"Content-Type": "application/json"})
    assert reply.status == 200, reply.body


async def promises_of(http: Http, path: str) -> dict[str, tuple[str, str | None]]:
    writes = (await http.get(path)).json["writes"]
    return {mode: (of["promise"], of.get("lowered_by")) for mode, of in writes.items()}


@pytest.mark.parametrize(
    ("settings", "less"),
    [
        ({}, {}),
        ({"horizon_ms": 3_600_000_000, "lease_expiry": "hold"}, {}),
        ({"shadow": True}, {"ids": ("at least once", "shadow"), "claim": ("at least once", "shadow")}),
        ({"on_ledger_down": "pass_marked"}, {"claim": (UNCHECKED, "on_ledger_down")}),
        (
            {"shadow": True, "on_ledger_down": "pass_marked"},
            {"ids": ("at least once", "shadow"), "claim": ("at least once", "shadow")},
        ),
    ],
)
async def test_a_namespace_promises_what_its_settings_leave(
    settings: dict[str, Any], less: dict[str, tuple[str, str | None]]
) -> None:
    wanted = {mode: (promise, None) for mode, promise in AS_EVER.items()} | less
    async with open_http() as http:
        await configured(http, **settings)
        assert await promises_of(http, NS) == wanted
        assert await promises_of(http, "/v1/capabilities?namespace=default") == wanted
        by_default = {mode: (promise, None) for mode, promise in AS_EVER.items()}
        assert await promises_of(http, "/v1/capabilities") == by_default, "for a namespace without settings"
        assert (await http.get("/v1/capabilities?namespace=default")).json["namespace"] == "default"
        assert "namespace" not in (await http.get("/v1/capabilities")).json


async def test_a_setting_that_is_taken_back_leaves_the_promise_as_it_was() -> None:
    async with open_http() as http:
        await configured(http, shadow=True)
        await configured(http, shadow=False)
        assert await promises_of(http, NS) == {mode: (promise, None) for mode, promise in AS_EVER.items()}


async def test_a_namespace_that_is_not_there_promises_nothing() -> None:
    async with open_http() as http:
        (await http.get("/v1/capabilities?namespace=nowhere")).problem(404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("ledger", "modes"),
    [
        ("log:./data", "staged ids claim plain"),
        ("memory:", "staged ids claim plain"),
        ("kafka://127.0.0.1:9092/oncegate", "staged ids claim direct plain"),
        ("redis://127.0.0.1:6379/oncegate", "staged ids claim plain"),
        ("redis://127.0.0.1:6379/oncegate?outputs=none", "claim"),
        ("rediss://127.0.0.1:6379/oncegate?durable=no&outputs=none", "claim"),
        ("redis://127.0.0.1:6379/outputs=none", "staged ids claim plain"),
    ],
)
def test_only_what_its_ledger_offers_is_promised(ledger: str, modes: str) -> None:
    assert list(promised(ledger)) == modes.split()


def test_the_first_line_of_the_log_promises_what_the_settings_leave() -> None:
    assert "effectively once for staged and ids" in promise_of("default", "log:./data", is_new=False).sentence()
    less = promise_of("default", "log:./data", is_new=False, shadow=True).sentence()
    assert "effectively once for staged;" in less
    assert "at least once for ids, claim and plain" in less
