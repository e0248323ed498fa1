"""Loads the TLS certificates of HTTP and gRPC from PEM files, at start-up and whenever the files change.

TLS 1.3 only, without session resumption: otherwise a session that a removed authority had admitted would outlive it.
"""

import ssl
import threading
from dataclasses import dataclass
from pathlib import Path

from oncegate.ports import Observer
from oncegate.transports.file_version import FileVersion, version_of

# A certificate with its chain has some kilobytes, a bundle of public authorities 250 of them.
PEM_BYTES_MAX = 4 << 20


class TlsUnreadable(ValueError):
    """Raised if certificates cannot be used; the message is one line for a person."""


@dataclass(frozen=True)
class TlsFiles:
    """The paths of the gateway's certificate, of its key if in a separate file, and of the callers' CA certificates."""

    certificate: Path
    key: Path | None = None
    client_ca: Path | None = None


@dataclass(frozen=True)
class Pem:
    """The contents of the files: key, certificate chain, and the callers' CA certificates (None if not required)."""

    key: bytes
    certificate: bytes
    client_ca: bytes | None


class Tls:
    """The current certificates for new connections. Unusable files are logged, and the previous ones stay in use.

    Thread-safe: gRPC calls from its own threads.
    """

    def __init__(self, files: TlsFiles, observer: Observer) -> None:
        """Reads the files. Raises TlsUnreadable."""
        self._files, self._observer = files, observer
        self._lock = threading.Lock()
        self._version = self._versions()
        self._context, self._pem = _read(files)

    @property
    def asks_callers(self) -> bool:
        """Returns whether callers must present a certificate."""
        return self._files.client_ca is not None

    def context(self) -> ssl.SSLContext:
        """Returns a context for asyncio's servers; each handshake uses the newest certificates."""
        outer = _made(self._files)
        outer.sni_callback = self._at_handshake
        return outer

    def pem(self) -> Pem:
        """Returns the newest certificates; the same object until the files change."""
        self._look()
        return self._pem

    def _at_handshake(self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        """Switches a connection to the newest context. Also called for clients that send no host name."""
        self._look()
        connection.context = self._context

    def _look(self) -> None:
        with self._lock:
            version = self._versions()
            if version == self._version:
                return
            self._version = version
            try:
                self._context, self._pem = _read(self._files)
            except TlsUnreadable as error:
                self._observer.event("certificates_unreadable", detail=str(error))
            else:
                self._observer.event("certificates_read")

    def _versions(self) -> list[FileVersion | None]:
        return [version_of(file) for file in vars(self._files).values()]


def _read(files: TlsFiles) -> tuple[ssl.SSLContext, Pem]:
    """Reads and checks the files. Raises TlsUnreadable."""
    certificate, client_ca = _bytes(files.certificate), None
    key = certificate if files.key is None else _bytes(files.key)
    if files.client_ca is not None:
        client_ca = _bytes(files.client_ca)
    return _made(files), Pem(key, certificate, client_ca)


def _made(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    try:
        context.load_cert_chain(files.certificate, files.key, _no_password)
    except (OSError, ValueError) as error:
        named = str(files.certificate) if files.key is None else f"{files.certificate} with the key {files.key}"
        raise TlsUnreadable(f"{named}: {_why(error)}; a PEM certificate and its own key are wanted") from error
    if files.client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(files.client_ca)
        except (OSError, ValueError) as error:
            raise TlsUnreadable(f"{files.client_ca}: {_why(error)}; PEM certificates are wanted") from error
    return context


def _bytes(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            found = opened.read(PEM_BYTES_MAX + 1)
    except OSError as error:
        raise TlsUnreadable(f"{file}: {_why(error)}") from error
    if len(found) > PEM_BYTES_MAX:
        raise TlsUnreadable(f"{file} has more than {PEM_BYTES_MAX >> 20} MiB: it is no certificate")
    return found


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "no certificate or key in it").lower().replace("_", " ")
    return getattr(error, "strerror", None) or str(error)


def _no_password() -> str:
    """Refuses an encrypted key, for which OpenSSL would prompt at the terminal."""
    raise ValueError("the key is encrypted with a password")
