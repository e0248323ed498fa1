"""Certificates between a guard and brokers: which ones each accepts, and the errors for the others."""

import asyncio
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiokafka.errors import KafkaError

from deploy.kafka.access import CLIENT, Access
from deploy.kafka.certificates import UNTIL, Authority
from oncegate.ledgers.kafka.transactions.guard import Guard
from tests.support.kafka_broker import Broker, one_broker
from tests.support.kafka_guards import PATIENT, batch, new_id, refused_at_start, started
from tests.support.kafka_rights import DESCRIBE, TOPIC, TRANSACTIONAL_ID, WRITE, Rights

pytestmark = pytest.mark.slow
NO_CERTIFICATE: dict[str, str | None] = {"ssl_cafile": None, "ssl_certfile": None, "ssl_keyfile": None}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that identifies clients by their certificates."""
    access = Access(tls=True, client_certificates="required", acls=True)
    with one_broker(tmp_path_factory.mktemp("kafka"), access) as broker:
        yield broker


async def test_a_clients_certificate_is_who_it_is(broker: Broker) -> None:
    flights, name, rights = broker.topic(), new_id(), Rights(broker)
    assert f"transactional id {name}: allow this client's principal" in await refused_at_start(broker.settings(), name)
    rights.allow(TRANSACTIONAL_ID, name, WRITE, DESCRIBE)
    rights.allow(TOPIC, flights.topic, WRITE, DESCRIBE)
    async with started(broker.settings(), name) as guard:
        await guard.commit([batch(flights, b"a")])
    assert broker.committed(flights) == [b"a"]


@pytest.mark.parametrize("shown", ["none", "another authority's"])
async def test_a_broker_that_requires_a_certificate_is_reported(shown: str, broker: Broker, tmp_path: Path) -> None:
    changed: dict[str, str | None] = {"ssl_certfile": None, "ssl_keyfile": None}
    if shown != "none":
        (tmp_path / "client.pem").write_bytes(b"".join(Authority().signed(CLIENT)))
        changed["ssl_certfile"] = str(tmp_path / "client.pem")
    message = await refused_at_start(broker.settings(**changed))
    assert "check ssl_certfile and ssl_keyfile" in message


async def test_a_certificate_that_is_changed_in_its_file_counts_without_a_start(broker: Broker, tmp_path: Path) -> None:
    flights, name, rights = broker.topic(), new_id(), Rights(broker)
    rights.allow(TRANSACTIONAL_ID, name, WRITE, DESCRIBE)
    rights.allow(TOPIC, flights.topic, WRITE, DESCRIBE)
    (mine := tmp_path / "client.pem").write_bytes(b"".join(Authority().signed(CLIENT)))
    settings = broker.settings(ssl_certfile=str(mine), ssl_keyfile=None)
    assert "check ssl_certfile" in await refused_at_start(settings, name)
    files = broker.cluster.files
    mine.write_bytes(files.key(CLIENT).read_bytes() + files.certificate(CLIENT).read_bytes())
    async with started(settings, name) as guard:
        await guard.commit([batch(flights, b"a")])
    assert broker.committed(flights) == [b"a"]


async def test_an_authority_other_than_the_brokers_is_reported(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(Authority().pem)
    message = await refused_at_start(broker.settings(ssl_cafile=str(tmp_path / "ca.pem")))
    assert "certificate: not trusted" in message
    assert "ssl_cafile" in message


@pytest.mark.parametrize("protocol", ["SSL", "PLAINTEXT", "SASL_PLAINTEXT"])
async def test_a_port_of_another_protocol_is_reported(protocol: str, broker: Broker, tmp_path: Path) -> None:
    """Plaintext clients connect to the TLS port, the others to the port without authentication."""
    (tmp_path / "password").write_text("secret")
    sasl = {"sasl_mechanism": "PLAIN", "sasl_username": "ann", "sasl_password_file": str(tmp_path / "password")}
    options = {"SSL": {}, "PLAINTEXT": NO_CERTIFICATE, "SASL_PLAINTEXT": NO_CERTIFICATE | sasl}[protocol]
    settings = broker.settings(security_protocol=protocol, **options)
    if protocol != "PLAINTEXT":
        settings["bootstrap_servers"] = f"127.0.0.1:{broker.behind}"
    with pytest.raises(KafkaError, match=r"check (that )?security_protocol"):
        await Guard(settings, "shard", PATIENT).start()


@pytest.mark.parametrize(
    ("hosts", "until", "mend"),
    [(("elsewhere",), UNTIL, "all their names"), (("127.0.0.1",), datetime(2021, 1, 1, tzinfo=UTC), "renew it")],
)
async def test_a_certificate_for_another_host_or_out_of_date_is_reported(
    hosts: tuple[str, ...], until: datetime, mend: str, tmp_path: Path
) -> None:
    authority = Authority()
    (tmp_path / "server.pem").write_bytes(b"".join(authority.signed("broker", hosts, until)))
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(tmp_path / "server.pem")
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=serving) as server:
        trusting = ssl.create_default_context(cadata=authority.pem.decode())
        place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        message = await refused_at_start(
            {"bootstrap_servers": place, "security_protocol": "SSL", "ssl_context": trusting}
        )
    assert mend in message
