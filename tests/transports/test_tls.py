"""TLS over HTTP and gRPC of a real process: trust, renewal without a restart, and refusals to start."""

import asyncio
import io
import os
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest

from deploy.kafka.certificates import Authority
from deploy.ports import free_port
from oncegate.app import running
from oncegate.core.errors import SettingsError
from oncegate.runtime.logging import open_log
from oncegate.transports.http.server.protocol import HANDSHAKE_S
from oncegate_spark import AsyncGateway, Credentials, Gateway, errors
from tests.support.gateway_process import GatewayProcess
from tests.support.http_app import settings

HERE = "127.0.0.1"
SERVING = b"\x08\x01"


class Files:
    """An authority, and the files of a gateway's and a client's certificates below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.authority = folder, Authority()
        self.ca = self.write("ca.pem", self.authority.pem)
        self.certificate, self.key = self.signed("gateway")
        self.client, self.client_key = self.signed("client")

    def write(self, name: str, text: bytes) -> str:
        """Replaces a file as a renewal does: under another name first."""
        (new := self.folder / f"{name}.new").write_bytes(text)
        os.replace(new, self.folder / name)
        return str(self.folder / name)

    def signed(self, name: str, authority: Authority | None = None) -> tuple[str, str]:
        """Writes a new certificate and its key. Returns their paths."""
        key, certificate = (authority or self.authority).signed(name)
        return self.write(f"{name}.pem", certificate), self.write(f"{name}.key", key)

    @property
    def shown(self) -> Credentials:
        """Returns the credentials of a client of this authority."""
        return Credentials(ca=self.ca, certificate=self.client, certificate_key=self.client_key)

    @property
    def flags(self) -> dict[str, Any]:
        """Returns the settings of a gateway that requires certificates."""
        names = {"tls_certificate": self.certificate, "tls_key": self.key, "tls_client_ca": self.ca}
        return {name: Path(path) for name, path in names.items()}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def words(flags: dict[str, Any]) -> list[str]:
    return [word for name, value in flags.items() for word in (f"--{name.replace('_', '-')}", str(value))]


@contextmanager
def gateway(files: Files, *more: str, asks: bool = False) -> Iterator[GatewayProcess]:
    flags = dict(files.flags)
    if not asks:
        del flags["tls_client_ca"]
    with GatewayProcess(files.folder, *words(flags), *more, tls=files.shown.tls()) as process:
        yield process


def serial(port: int, tls: ssl.SSLContext) -> int:
    """Returns the serial number of the server's current certificate."""
    with socket.create_connection((HERE, port), 20) as sock, tls.wrap_socket(sock, server_hostname=HERE) as secured:
        found = secured.getpeercert()
        assert found is not None
        return int(found["serialNumber"], 16)


def probed(port: int, files: Files, *, shows: bool = True) -> bytes:
    """Makes a gRPC call on a connection of its own. Raises RpcError."""
    read = [Path(path).read_bytes() for path in (files.ca, files.client_key, files.client)]
    trusted = grpc.ssl_channel_credentials(*(read if shows else read[:1]))
    with grpc.secure_channel(f"{HERE}:{port}", trusted) as channel:
        return bytes(channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=20))


def test_both_clients_write_and_read_over_tls_bodies_of_any_size(files: Files) -> None:
    """A large body bypasses the parser, into memory that the system writes to: over TLS as without."""
    rows = pa.table({"n": pa.array(range(1_000_000), pa.int64())})  # 8 MB
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    trusted = Credentials(ca=files.ca)
    with gateway(files) as process, Gateway(process.url, credentials=trusted) as client:
        client.produce("t", "0" * 32, 0, sink.getvalue())
        assert client.read("t") == rows
        with client.attempt() as attempt:
            claimed = attempt.claim([f"id-{n}" for n in range(50_000)])
            attempt.complete(claimed)
            assert len(claimed.granted) == 50_000
        assert asyncio.run(also_async(process.url, trusted)) == 1
        assert f"listening on https://{HERE}:{process.port}" in process.log
        with pytest.raises(errors.Refused, match="certificate is not trusted"), Gateway(process.url) as stranger:
            stranger.describe()
        plain = Gateway(process.url.replace("https", "http"), timeout_ms=1)
        with pytest.raises(errors.OncegateError), plain:
            plain.describe()
        old = files.shown.tls()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert not answered(process.port, old)
        began_s = time.monotonic()
        assert process.stop() == 0
        assert time.monotonic() - began_s < 15  # a client sleeps on its connection, and is not waited for


async def also_async(url: str, credentials: Credentials) -> int:
    async with AsyncGateway(url, credentials=credentials) as gateway, gateway.attempt() as attempt:
        found = await attempt.claim(["a"])
        await attempt.complete(found)
        return len(found.granted)


def test_both_doors_take_only_callers_of_the_authority_that_their_files_name_now(files: Files) -> None:
    """The cases in order: strangers, a renewed certificate, unusable files, callers of another authority."""
    grpc_port = free_port()
    with gateway(files, "--grpc-port", str(grpc_port), asks=True) as process:
        strangers_are_refused(process, grpc_port, files)
        renewed_certificates_count_and_broken_ones_change_nothing(process, grpc_port, files)
        callers_of_an_authority_that_is_no_longer_named_are_refused(process, grpc_port, files)


@pytest.mark.parametrize("asks", [False, True], ids=["server's alone", "mutual"])
@pytest.mark.server
def test_http_and_grpc_speak_tls_1_3_alone_and_no_session_continues_in_a_later_connection(
    files: Files, asks: bool
) -> None:
    grpc_port = free_port()
    with gateway(files, "--grpc-port", str(grpc_port), asks=asks) as process:
        for port, protocol, first in ((process.port, "http/1.1", LIVE), (grpc_port, "h2", PREFACE)):
            tls = files.shown.tls()
            tls.set_alpn_protocols([protocol])
            version, _, session = spoken(port, tls, first, None)
            assert (version, spoken(port, tls, first, session)[:2]) == ("TLSv1.3", ("TLSv1.3", False))
            older = files.shown.tls()
            older.set_alpn_protocols([protocol])
            older.minimum_version, older.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, ssl.TLSVersion.TLSv1_2
            with pytest.raises(OSError):
                spoken(port, older, first, None)
        assert probed(grpc_port, files) == SERVING


LIVE = b"GET /healthz/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def spoken(port: int, tls: ssl.SSLContext, first: bytes, session: ssl.SSLSession | None) -> tuple[Any, ...]:
    """Returns the server's version, whether it resumed a session, and the session that it offers."""
    with (
        socket.create_connection((HERE, port), 20) as sock,
        tls.wrap_socket(sock, server_hostname=HERE, session=session) as secured,
    ):
        secured.sendall(first)
        assert secured.recv(100)  # tickets come before it
        return secured.version(), secured.session_reused, secured.session


def strangers_are_refused(process: GatewayProcess, grpc_port: int, files: Files) -> None:
    other, other_key = files.signed("other", Authority("another authority"))
    assert "callers must show one" in process.log
    for credentials in (
        Credentials(ca=files.ca),
        Credentials(ca=files.ca, certificate=other, certificate_key=other_key),
    ):
        refused = Gateway(process.url, credentials=credentials, timeout_ms=1_000)
        with pytest.raises(errors.OncegateError), refused:
            refused.describe()
        assert not answered(process.port, credentials.tls())
    with Gateway(process.url, credentials=files.shown) as client:
        assert client.describe()["namespace"] == "default"
    assert asyncio.run(also_async(process.url, files.shown)) == 1
    with pytest.raises(grpc.RpcError):
        probed(grpc_port, files, shows=False)
    assert probed(grpc_port, files) == SERVING


def renewed_certificates_count_and_broken_ones_change_nothing(
    process: GatewayProcess, grpc_port: int, files: Files
) -> None:
    tls = files.shown.tls()
    first = serial(process.port, tls)
    assert serial(grpc_port, tls) == first
    with Gateway(process.url, credentials=files.shown) as kept:
        kept.describe()
        files.signed("gateway")
        second = serial(process.port, tls)
        assert second != first
        assert serial(grpc_port, tls) == second
        kept.describe()  # its connection survives
    files.write("gateway.key", Authority().signed("x")[0])
    assert serial(process.port, tls) == second
    assert serial(grpc_port, tls) == second
    (line,) = (line for line in process.log.splitlines() if "certificates_unreadable" in line)
    assert "error" in line.split("certificates_unreadable")[0]
    assert "key values mismatch" in process.log
    Path(files.key).unlink()
    assert serial(process.port, tls) == second
    files.signed("gateway")
    assert serial(grpc_port, tls) != second


def callers_of_an_authority_that_is_no_longer_named_are_refused(
    process: GatewayProcess, grpc_port: int, files: Files
) -> None:
    new, before = Authority("the next authority"), files.shown.tls()
    assert answered(process.port, before)
    trusted = files.write("trusted.pem", Path(files.ca).read_bytes())
    files.write("ca.pem", new.pem)  # the gateway reads its callers' authority from there
    files.ca = trusted
    assert not answered(process.port, before)
    with pytest.raises(grpc.RpcError):
        probed(grpc_port, files)
    files.client, files.client_key = files.signed("client", new)
    assert answered(process.port, files.shown.tls())
    assert probed(grpc_port, files) == SERVING


def answered(port: int, tls: ssl.SSLContext) -> bool:
    """Returns whether a request on a new connection is answered. A refusal arrives with the first bytes read."""
    try:
        with socket.create_connection((HERE, port), 20) as sock, tls.wrap_socket(sock, server_hostname=HERE) as secured:
            secured.sendall(b"GET /healthz/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return secured.recv(12) == b"HTTP/1.1 200"
    except (ssl.SSLError, ConnectionError):
        return False


async def test_a_handshake_that_does_not_end_is_cut_off(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections without a handshake are not established yet, and would not be counted."""
    monkeypatch.setattr("oncegate.transports.http.server.protocol.HANDSHAKE_S", 0.2)
    assert HANDSHAKE_S <= 5
    certificates = {name: path for name, path in files.flags.items() if name != "tls_client_ca"}
    async with running(settings(**certificates), open_log("text", io.StringIO())) as program:
        silent = [await asyncio.open_connection(HERE, program.port) for _ in range(50)]
        for reader, writer in silent:
            assert await asyncio.wait_for(reader.read(1), 20) == b""
            writer.close()


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"tls_certificate": "missing.pem"}, r"missing\.pem: No such file or directory"),
        ({"tls_certificate": "gateway.pem"}, r"gateway\.pem: .*a PEM certificate and its own key are wanted"),
        ({"tls_certificate": "gateway.pem", "tls_key": "client.key"}, r"key values mismatch"),
        ({"tls_certificate": "gateway.pem", "tls_key": "."}, r"Is a directory"),
        ({"tls_certificate": "no.pem", "tls_key": "gateway.key"}, r"no\.pem with the key"),
        ({"tls_certificate": "gateway.pem", "tls_key": "locked.key"}, r"the key is encrypted with a password"),
        ({"tls_certificate": "gateway.pem", "tls_key": "gateway.key", "tls_client_ca": "no.pem"}, r"no\.pem: .*PEM"),
        ({"tls_certificate": "big.pem"}, r"it is no certificate"),
        ({"tls_key": "gateway.key"}, r"tls_key goes with tls_certificate"),
        ({"tls_client_ca": "ca.pem"}, r"tls_client_ca goes with tls_certificate"),
    ],
)
async def test_files_that_cannot_be_used_are_one_line_at_the_start_and_make_no_ledger(
    flags: dict[str, str], told: str, files: Files
) -> None:
    files.write("no.pem", b"no certificate")
    files.write("big.pem", b"-" * ((4 << 20) + 1))
    files.write("locked.key", locked(Path(files.key).read_bytes()))
    given = {name: files.folder / path for name, path in flags.items()}
    ledger = f"log:{files.folder / 'data'}"
    with pytest.raises(SettingsError, match=told) as refused:
        async with running(settings(ledger=ledger, **given), open_log("text", io.StringIO())):
            pass
    assert "\n" not in str(refused.value)
    assert not (files.folder / "data").exists()


def locked(pem: bytes) -> bytes:
    """Returns a private key encrypted with a password."""
    from cryptography.hazmat.primitives import serialization as s

    key = s.load_pem_private_key(pem, None)
    return key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.BestAvailableEncryption(b"secret"))


async def test_without_keys_certificates_alone_open_no_other_address_than_loopback(files: Files) -> None:
    with pytest.raises(SettingsError, match="without keys only loopback addresses"):
        async with running(settings(host="0.0.0.0", **files.flags), open_log("text", io.StringIO())):
            pass
