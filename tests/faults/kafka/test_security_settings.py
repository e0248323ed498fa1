"""Connection settings in a ledger's URL: contradictions are refused in one line that shows no password."""

import logging
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.protocol.admin import SaslAuthenticateRequest_v1
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from deploy.kafka.access import Access, Files
from deploy.kafka.certificates import Authority
from oncegate.core.errors import BadRequest
from oncegate.ledgers.kafka.security import PARAMETERS, Security

SASL = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "oncegate"}


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text("pass word-é\n")
    return path


@pytest.fixture
def pems(tmp_path: Path) -> Path:
    """Writes an authority's certificate, and a client's key and certificate. Returns the folder."""
    authority = Authority()
    key, certificate = authority.signed("client")
    for name, pem in {"ca": authority.pem, "client": certificate, "client.key": key}.items():
        (tmp_path / f"{name}.pem").write_bytes(pem)
    return tmp_path


def refused(**parameters: object) -> str:
    with pytest.raises(BadRequest) as raised:
        Security.parsed([(name, str(value)) for name, value in parameters.items()])
    assert "\n" not in raised.value.detail
    return raised.value.detail


def test_nothing_said_is_plain_text() -> None:
    assert Security.parsed([]).client_arguments() == {"security_protocol": "PLAINTEXT"}


def test_a_user_is_given_to_the_client_with_the_password_of_the_file(password_file: Path) -> None:
    security = Security.parsed([*SASL.items(), ("sasl_password_file", str(password_file))])
    assert security.client_arguments() == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "oncegate",
        "sasl_plain_password": "pass word-é",
    }
    password_file.write_text("another")
    assert security.client_arguments()["sasl_plain_password"] == "another", "of the file as it is now"
    assert "pass" not in repr(security).replace(str(password_file), "").replace("password_file", "")


async def test_every_argument_is_one_that_aiokafka_takes(tmp_path: Path) -> None:
    access, files = Access(sasl=True, tls=True, client_certificates="required"), Files(tmp_path)
    files.make(access)
    security = Security.parsed(parse_qsl(access.query(files), strict_parsing=True))
    assert all(getattr(security, field) is not None for field in PARAMETERS.values())
    producer = AIOKafkaProducer(**security.client_arguments())
    producer._closed = True


def test_a_broker_is_always_verified_with_its_host(pems: Path) -> None:
    arguments = Security.parsed([("security_protocol", "SSL"), ("ssl_cafile", f"{pems}/ca.pem")]).client_arguments()
    assert arguments["ssl_context"].check_hostname
    assert len(arguments["ssl_context"].get_ca_certs()) == 1


@pytest.mark.parametrize("name", ["sasl_password", "password", "sasl.jaas.password", "sasl_plain_password"])
def test_a_password_in_a_url_is_refused_and_not_repeated(name: str) -> None:
    message = refused(**{name: "secret-1"})
    assert "sasl_password_file" in message
    assert "secret-1" not in message


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"security.protocol": "SSL"}, "did you mean security_protocol?"),
        ({"ssl_ca_file": "x"}, "did you mean ssl_cafile?"),
        ({"retries": "3"}, "retries is no parameter"),
        ({"security_protocol": "ssl"}, "security_protocol=ssl is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security_protocol": ""}, "security_protocol is empty"),
        ({**SASL, "sasl_mechanism": "GSSAPI", "sasl_password_file": "/dev/null"}, "sasl_mechanism=GSSAPI is none of"),
        (SASL, "security_protocol=SASL_PLAINTEXT needs sasl_password_file"),
        ({"security_protocol": "SASL_SSL"}, "security_protocol=SASL_SSL needs sasl_mechanism"),
        ({"sasl_username": "oncegate"}, "sasl_username does nothing with security_protocol=PLAINTEXT"),
        ({"security_protocol": "SSL", "sasl_mechanism": "PLAIN"}, "sasl_mechanism does nothing with"),
        ({**SASL, "sasl_password_file": "x", "ssl_cafile": "x"}, "ssl_cafile does nothing with"),
        ({"security_protocol": "SSL", "ssl_keyfile": "x"}, "ssl_keyfile needs ssl_certfile"),
        ({"security_protocol": "SSL", "ssl_cafile": "/no/such"}, "ssl_cafile /no/such cannot be used: No such file"),
        ({"security_protocol": "SSL", "ssl_cafile": "/dev/null"}, "ssl_cafile /dev/null cannot be used"),
        (
            {"security_protocol": "SSL", "ssl_certfile": "/no/such"},
            "ssl_certfile /no/such cannot be used: No such file",
        ),
        ({**SASL, "sasl_password_file": "/no/such"}, "sasl_password_file /no/such cannot be read: No such file"),
        ({**SASL, "sasl_password_file": "/dev/null"}, "sasl_password_file /dev/null is empty"),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_name(parameters: dict[str, str], told: str) -> None:
    assert told in refused(**parameters)


def test_a_parameter_that_is_there_twice_is_refused() -> None:
    with pytest.raises(BadRequest, match="security_protocol is there twice"):
        Security.parsed([("security_protocol", "SSL"), ("security_protocol", "PLAINTEXT")])


@pytest.mark.parametrize("held", [b"one\ntwo\n", b"\xff\xfe", b"a\0b"])
def test_a_file_that_is_no_password_is_refused_and_not_repeated(held: bytes, tmp_path: Path) -> None:
    (tmp_path / "held").write_bytes(held)
    message = refused(**SASL, sasl_password_file=tmp_path / "held")
    assert "more than one line" in message
    assert "two" not in message


def test_a_key_of_another_certificate_or_an_encrypted_one_is_refused(pems: Path) -> None:
    tls = {"security_protocol": "SSL", "ssl_certfile": pems / "client.pem", "ssl_keyfile": pems / "other.pem"}
    key, _ = Authority().signed("other")
    (pems / "other.pem").write_bytes(key)
    assert "KEY_VALUES_MISMATCH" in refused(**tls)
    encrypted = load_pem_private_key((pems / "client.key.pem").read_bytes(), None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    (pems / "other.pem").write_bytes(encrypted)
    assert "is encrypted: store it decrypted" in refused(**tls)


def test_the_proof_of_a_user_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    request = SaslAuthenticateRequest_v1(b"\0user\0secret-1")
    assert "secret-1" in repr(request)
    logging.getLogger("aiokafka.conn").debug("Request %s", request)
    assert "secret-1" not in caplog.text
