"""Duplicates in a topic of a real broker: the records that another client reads, and topics that are unsuitable."""

import json
from pathlib import Path
from typing import Any

import pytest

from oncegate.core.errors import BadRequest, NotFound
from tests.support.http_app import JSON, Served, request, served
from tests.support.kafka_broker import Broker
from tests.support.kafka_ledger import Prefix

pytestmark = pytest.mark.slow
TOKEN, OTHER = "ab" * 16, "cd" * 16


async def claim(gateway: Served, token: str, *ids: str) -> Any:
    body = json.dumps({"token": token, "call": 0, "ids": ids}).encode()
    return (await gateway.send(request("POST", "/v1/namespaces/default/ids:claim", body, Content_Type=JSON))).json


async def test_each_duplicate_that_was_answered_is_a_record_of_the_topic(broker: Broker) -> None:
    prefix, topic = Prefix(broker), broker.topic()
    async with served(ledger=f"kafka:{prefix.place()}", duplicates_topic=topic.topic) as gateway:
        first = await claim(gateway, TOKEN, "a", "b")
        await gateway.send(request("POST", f"/v1/namespaces/default/claims/{first['claim']}:complete"))
        position = gateway.position
        answer = await claim(gateway, OTHER, "a", "b", "c")
        assert [one["verdict"] for one in answer["verdicts"]] == ["DUPLICATE", "DUPLICATE", "GRANTED"]
        page = (await gateway.send(request("GET", "/metrics"))).body.decode()
        assert 'oncegate_duplicate_records_total{outcome="left_out"} 0.0' in page
        asked = [request("GET", f"/v1/namespaces/default/ids:explain?id={one}") for one in ("a", "b")]
        named = [(await gateway.send(one)).json["fingerprint"] for one in asked]
    found = [(one.key(), json.loads(one.value())) for one in broker.messages(topic)]
    assert [(one["cause"], one["first"]) for _, one in found] == [
        ("unknown", {"position": position, "topic": None})
    ] * 2
    assert [key.decode() for key, _ in found] == named, "a requested id is found by its fingerprint"
    assert [key.decode() for key, _ in found] == [one["fingerprint"] for _, one in found]
    assert len({one["fingerprint"] for _, one in found}) == 2


async def test_a_topic_that_is_not_there_or_the_gateways_own_ends_the_start(broker: Broker) -> None:
    prefix = Prefix(broker)
    for topic, kind, told in ((f"{prefix.name}.x", BadRequest, "gateway's own"), ("none", NotFound, "make it there")):
        with pytest.raises(kind, match=told):
            async with served(ledger=f"kafka:{prefix.place()}", duplicates_topic=topic):
                raise AssertionError("it serves")


async def test_a_ledger_without_brokers_refuses_the_setting_by_name(tmp_path: Path) -> None:
    for ledger in ("memory:", f"log:{tmp_path / 'data'}"):
        with pytest.raises(BadRequest, match=r"duplicates_topic x: a ledger \w+: has no brokers"):
            async with served(ledger=ledger, duplicates_topic="x"):
                raise AssertionError("it serves")
