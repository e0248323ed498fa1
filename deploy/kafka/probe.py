"""Queries a broker over Kafka's protocol, authenticated as its admin if necessary."""

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from deploy.kafka.access import ADMIN, OPEN, Access, Files

ADDRESS = "127.0.0.1"
_METADATA, _SASL_HANDSHAKE, _SASL_AUTHENTICATE = (3, 1), (17, 1), (36, 0)
_ANSWER_S = 3


def brokers_seen(port: int, access: Access = OPEN, files: Files | None = None) -> int:
    """Returns the number of brokers known to the one on this port; 0 if it does not respond."""
    try:
        with connected(port, access, files) as stream:
            answer = asked(stream, _METADATA, struct.pack(">i", 0))
        return int(struct.unpack_from(">i", answer)[0])
    except (OSError, struct.error):
        return 0


@contextmanager
def connected(port: int, access: Access = OPEN, files: Files | None = None) -> Iterator[BinaryIO]:
    """Yields an authenticated connection to the broker on this port. Raises OSError or struct.error if it does not
    respond.
    """
    with socket.create_connection((ADDRESS, port), 1) as connection:
        connection.settimeout(_ANSWER_S)
        with _encrypted(connection, access, files) as secured, secured.makefile("rwb") as stream:
            if access.sasl and files is not None:
                _log_in(stream, files.password(ADMIN))
            yield stream


def asked(stream: BinaryIO, api: tuple[int, int], body: bytes) -> bytes:
    """Returns the response to a request of this API and version, without its size and correlation id."""
    request = struct.pack(">hhih", *api, 1, 2) + b"up" + body
    stream.write(struct.pack(">i", len(request)) + request)
    stream.flush()
    (size,) = struct.unpack(">i", stream.read(4))
    return stream.read(size)[4:]


def _encrypted(connection: socket.socket, access: Access, files: Files | None) -> socket.socket:
    if not access.tls or files is None:
        return connection
    context = ssl.create_default_context(cafile=files.authority)
    context.load_cert_chain(files.certificate(ADMIN), files.key(ADMIN))
    return context.wrap_socket(connection, server_hostname=ADDRESS)


def _log_in(stream: BinaryIO, password: str) -> None:
    """Authenticates with PLAIN (RFC 4616); after a refusal the connection ends, and the next
    request gets no response.
    """
    asked(stream, _SASL_HANDSHAKE, struct.pack(">h5s", 5, b"PLAIN"))
    proof = f"\0{ADMIN}\0{password}".encode()
    asked(stream, _SASL_AUTHENTICATE, struct.pack(">i", len(proof)) + proof)
