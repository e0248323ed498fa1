"""What stands at both doors: the address that may be listened on, who is let in, and the certificates of TLS."""

import ipaddress
import socket

from oncegate.ports import Observer
from oncegate.runtime.clock import SystemClock
from oncegate.settings import ProcessSettings, SettingsError
from oncegate.transports.access.access import Access
from oncegate.transports.access.keys import KeysUnreadable
from oncegate.transports.promises import CREDENTIALS, KEYS, OPEN
from oncegate.transports.tls import Tls, TlsFiles, TlsUnreadable


def is_guarded(process: ProcessSettings) -> bool:
    """Tells whether addresses beside loopback may be listened on: there are keys, or somebody wants it without."""
    return process.keys is not None or process.insecure_without_keys


def credentials(process: ProcessSettings) -> str:
    """Says which credentials are asked for, in the log and in the capabilities."""
    if process.keys is not None:
        return KEYS
    return CREDENTIALS if is_loopback(process.host) else OPEN


def access_of(process: ProcessSettings, observer: Observer) -> Access | None:
    """Returns who may call what, by the file of keys; None where there is none. Raises SettingsError."""
    if process.keys is None:
        return None
    try:
        return Access(process.keys, SystemClock(), observer)
    except KeysUnreadable as error:
        raise SettingsError(f"keys: {error}") from error


def tls_of(process: ProcessSettings, observer: Observer) -> Tls | None:
    """Returns the certificates of both doors; None where none are set. Raises SettingsError."""
    if process.tls_certificate is None:
        for name in ("tls_key", "tls_client_ca"):
            if getattr(process, name) is not None:
                raise SettingsError(f"{name} goes with tls_certificate: name both, or neither")
        return None
    try:
        return Tls(TlsFiles(process.tls_certificate, process.tls_key, process.tls_client_ca), observer)
    except TlsUnreadable as error:
        raise SettingsError(f"tls_certificate, tls_key, tls_client_ca: {error}") from error


def is_loopback(host: str) -> bool:
    """Tells whether an address is one of this machine alone."""
    address = _address(host)
    return address is not None and address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        return None


def allowed_address(host: str, guarded: bool) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Returns the address to listen on; where it is not `guarded`, one of this machine only. Raises SettingsError."""
    address = _address(host)
    if address is None:
        raise SettingsError(f"host {host}: an address is wanted, such as 127.0.0.1 or 0.0.0.0")
    if not guarded and not address.is_loopback:
        raise SettingsError(
            f"host {host}: without keys only loopback addresses (127.0.0.1, ::1) are listened on; make a file of keys "
            "(`oncegate keys add`) and name it by `keys`, or say insecure_without_keys and let everybody do everything"
        )
    return address


def bound(host: str, port: int, guarded: bool = False) -> socket.socket:
    """Returns a socket bound to an address, as `allowed_address` allows it.

    Raises SettingsError: another address, or it is taken.
    """
    address = allowed_address(host, guarded)
    sock = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((str(address), port))
    except OSError as error:
        sock.close()
        raise SettingsError(f"port {port} of {address} cannot be had: {error.strerror}; choose another") from error
    return sock
