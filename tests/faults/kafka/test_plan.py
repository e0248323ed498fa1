"""`oncegate kafka plan` on a broker with ACLs: with its lines a gateway serves without the right to create topics."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import TopicAuthorizationFailedError, for_code
from typer.testing import CliRunner

from deploy.kafka.access import CLIENT, Access
from oncegate.cli import app
from oncegate.ledgers.kafka.ledgers import open_kafka
from oncegate.testing.ledger_places import snapshot_of
from oncegate_spark import Gateway
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker, one_broker
from tests.support.kafka_ledger import entries
from tests.support.kafka_rights import DESCRIBE, DESCRIBE_CONFIGS, TOPIC, TRANSACTIONAL_ID, Rights
from tests.support.kafka_tools import admin_properties, run_line

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with one_broker(tmp_path_factory.mktemp("kafka"), Access(sasl=True, tls=True, acls=True)) as broker:
        yield broker


@pytest.fixture(scope="module")
def prepared(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Returns the URL of a prefix for which an operator has run the lines."""
    url = url_of(broker, "prepared")
    properties = admin_properties(broker, tmp_path_factory.mktemp("admin"))
    status, printed, _ = plan(url, "--format", "commands", "--topic", "flights", "--command-config", str(properties))
    assert status == 0
    broker.topic(name="flights")
    for line in printed.splitlines():
        run_line(line)
    return url


def url_of(broker: Broker, prefix: str) -> str:
    query = broker.cluster.access.query(broker.cluster.files)
    return f"kafka://{broker.cluster.bootstrap}/{prefix}?replication=1&min_insync=1&bare_key=yes&{query}"


def plan(url: str, *options: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["kafka", "plan", "--ledger", url, *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def checked(url: str) -> dict[str, str]:
    """Returns the problems of each item."""
    status, printed, _ = plan(url, "--check", "--topic", "flights", "--format", "json")
    found = {one["item"]: "; ".join(one["wrong"]) for one in json.loads(printed)}
    assert status == any(found.values())
    return found


def test_who_runs_its_lines_has_a_gateway_that_serves_and_may_make_no_topic(
    broker: Broker, prepared: str, tmp_path: Path
) -> None:
    before = set(broker.admin.list_topics().topics)
    with GatewayProcess(tmp_path, ledger=prepared) as gateway:
        for ids, rows in ((["a", "b"], 2), (["b", "c"], 1)):
            with Gateway(gateway.url, timeout_ms=60_000) as client, client.attempt() as attempt:
                assert attempt.produce("flights", pa.table({"key": ids, "value": ids}), id_col="key").rows == rows
            gateway.kill()
            gateway.start()
        assert sorted(broker.values("flights")) == [b"a", b"b", b"c"]
        assert gateway.stop() == 0
    # Topics of the brokers: of transactional ids, and of consumer groups of this test.
    assert set(broker.admin.list_topics().topics) - before <= {"__transaction_state", "__consumer_offsets"}
    assert asyncio.run(made_by_the_user(broker)) is TopicAuthorizationFailedError


async def made_by_the_user(broker: Broker) -> type[Exception]:
    """Returns the broker's error when the gateway's own user creates a topic below the prefix."""
    admin = AIOKafkaAdminClient(**broker.settings(CLIENT))
    await admin.start()
    try:
        answer = await admin.create_topics([NewTopic("prepared.more", 1, 1)])
    finally:
        await admin.close()
    kind: type[Exception] = for_code(answer.topic_errors[0][1])
    return kind


def test_these_rights_are_enough_to_compact_and_to_shorten_the_topics(broker: Broker, prepared: str) -> None:
    async def compacted() -> None:
        place = f"{prepared.removeprefix('kafka:')}&send_ms=3000&commit_ms=3000"
        async with open_kafka(place, create=True) as ledgers, ledgers.open("default") as opened:
            ledger = opened.ledger
            await ledger.append([b"a"], [])
            await ledger.compact(ledger.mark.position, snapshot_of(b"state"))
            await ledger.keep_up()  # type: ignore[attr-defined]
            assert await entries(ledger) == [b"state"]

    asyncio.run(compacted())
    assert broker.low("prepared.default.ledger") > 0


def test_a_check_finds_everything_right_after_the_lines_were_run(prepared: str) -> None:
    found = checked(prepared)
    assert not any(found.values()), found
    assert {"topic flights", "rights on topic flights"} <= set(found)
    assert {"topic prepared.namespaces", "rights on topic prepared.default.ledger"} <= set(found)
    assert {"rights on transactional-id prepared.namespaces", "rights on transactional-id prepared.default/1/1"} <= set(
        found
    )


def test_a_check_makes_nothing_and_names_all_that_is_missing(broker: Broker) -> None:
    before = set(broker.admin.list_topics().topics)
    status, printed, output = plan(url_of(broker, "nothing"), "--check")
    assert status == 1
    names = ("namespaces", *(f"default.{one}" for one in ("ledger", "states", "outputs", "stages", "direct")))
    assert all(f"WRONG  topic nothing.{name}: missing" in printed for name in names)
    assert "WRONG  rights on transactional-id nothing.namespaces: Describe, Write is missing" in printed
    assert output.startswith("oncegate: 8 of 8 are missing or wrong")
    assert set(broker.admin.list_topics().topics) - before <= {"__transaction_state"}


def test_a_check_names_the_setting_and_the_right_that_are_not_as_they_have_to_be(
    broker: Broker, rights: Rights
) -> None:
    topic = "half.namespaces"
    broker.topic(name=topic, partitions=2)
    rights.allow(TOPIC, topic, DESCRIBE)
    rights.allow(TRANSACTIONAL_ID, topic, DESCRIBE)
    assert "to DESCRIBE_CONFIGS" in checked(url_of(broker, "half"))[f"topic {topic}"]
    rights.allow(TOPIC, topic, DESCRIBE, DESCRIBE_CONFIGS)
    found = checked(url_of(broker, "half"))
    assert "cleanup.policy=delete, not compact" in found[f"topic {topic}"]
    assert "2 partitions, not 1" in found[f"topic {topic}"]
    assert found[f"rights on topic {topic}"] == "Read, Write, Delete is missing"
    assert found[f"rights on transactional-id {topic}"] == "Write is missing"


def doctored(url: str) -> tuple[int, dict[str, str]]:
    """Returns the exit status and the doctor's findings about the ledger, by level."""
    result = CliRunner().invoke(app, ["doctor", "--json", "--ledger", url, "--port", "0"])
    found: dict[str, str] = {}
    for one in map(json.loads, result.stdout.splitlines()):
        if one["check"] == "ledger":
            found[one["level"]] = f"{found.get(one['level'], '')} {one['what']}"
    return result.exit_code, found


def test_a_doctor_reports_about_a_ledger_what_a_check_reports(broker: Broker, prepared: str, rights: Rights) -> None:
    status, found = doctored(prepared)
    assert (status, list(found)) == (0, ["ok"]), found
    status, found = doctored(url_of(broker, "nowhere"))
    assert status == 1, "its rights are missing too"
    assert "no topic of this prefix is there" in found["warning"]
    assert "rights on transactional-id nowhere.namespaces" in found["wrong"]
    assert "topic nowhere" not in found["wrong"]
    broker.topic(name="sick.namespaces", partitions=2)
    rights.allow(TOPIC, "sick.namespaces", DESCRIBE, DESCRIBE_CONFIGS)
    status, found = doctored(url_of(broker, "sick"))
    assert (status, "cleanup.policy=delete, not compact" in found["wrong"]) == (1, True)


@pytest.fixture(scope="module")
def rights(broker: Broker) -> Rights:
    return Rights(broker)
