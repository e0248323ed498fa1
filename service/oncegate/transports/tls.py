"""The certificates of both doors, in PEM files: read at the start, and anew where a connection finds them changed.

TLS 1.3 alone, and no session goes on in a later connection: else one that an older authority let in would outlive it.
"""

import ssl
import threading
from dataclasses import dataclass
from pathlib import Path

from oncegate.ports import Observer

# A certificate with its chain has some kilobytes, a bundle of public authorities 250 of them.
PEM_BYTES_MAX = 4 << 20


class TlsUnreadable(ValueError):
    """Says that certificates cannot be used, in one line for a person."""


@dataclass(frozen=True)
class TlsFiles:
    """Names the gateway's certificate, its key where that lies elsewhere, and whose certificates callers must show."""

    certificate: Path
    key: Path | None = None
    client_ca: Path | None = None


@dataclass(frozen=True)
class Pem:
    """What the files hold: the key, the certificate with its chain, and the authorities of callers; None: not asked."""

    key: bytes
    certificate: bytes
    client_ca: bytes | None


class Tls:
    """Gives each new connection the certificates as they are; files that cannot be used change nothing, and are told.

    May be asked from any thread: gRPC asks from its own.
    """

    def __init__(self, files: TlsFiles, observer: Observer) -> None:
        """Reads the files. Raises TlsUnreadable."""
        self._files, self._observer = files, observer
        self._lock = threading.Lock()
        self._version = self._found()
        self._context, self._pem = _read(files)

    @property
    def asks_callers(self) -> bool:
        """Tells whether callers must show a certificate."""
        return self._files.client_ca is not None

    def context(self) -> ssl.SSLContext:
        """Makes what asyncio's servers take: each handshake goes on with the newest certificates."""
        outer = _made(self._files)
        outer.sni_callback = self._at_handshake
        return outer

    def pem(self) -> Pem:
        """Returns the newest certificates; the same object for as long as nothing has changed."""
        self._look()
        return self._pem

    def _at_handshake(self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        """Called for each connection, also of callers who name no host."""
        self._look()
        connection.context = self._context

    def _look(self) -> None:
        with self._lock:
            version = self._found()
            if version == self._version:
                return
            self._version = version
            try:
                self._context, self._pem = _read(self._files)
            except TlsUnreadable as error:
                self._observer.event("certificates_unreadable", detail=str(error))
            else:
                self._observer.event("certificates_read")

    def _found(self) -> list[tuple[int, int, int] | None]:
        return [None if file is None else _version_of(file) for file in vars(self._files).values()]


def _version_of(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read(files: TlsFiles) -> tuple[ssl.SSLContext, Pem]:
    """Reads the files, and checks that they can be used. Raises TlsUnreadable."""
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
    """Answers in place of a person, whom the library would ask at the terminal."""
    raise ValueError("the key is encrypted with a password")
