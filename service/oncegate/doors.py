"""Settings that HTTP and gRPC share: the listening address, access, TLS certificates, traces."""

import ipaddress
import os
import socket
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING

from oncegate.clock import SystemClock
from oncegate.core.errors import SettingsError
from oncegate.ports import Observer
from oncegate.ports.tracing import Tracer
from oncegate.runtime.otel_variables import wanted_traces
from oncegate.settings import ProcessSettings
from oncegate.transports.access.access import Access
from oncegate.transports.access.keys import KeysUnreadable
from oncegate.transports.promises import CREDENTIALS, KEYS, KEYS_AND_TOKENS, OPEN, TOKENS
from oncegate.transports.tls import Tls, TlsFiles, TlsUnreadable

if TYPE_CHECKING:
    from oncegate.transports.access.tokens import BearerTokens


def is_guarded(process: ProcessSettings) -> bool:
    """Returns whether the gateway may listen on non-loopback addresses: keys, tokens or an explicit permission
    are set.
    """
    return process.keys is not None or process.jwt_issuer is not None or process.insecure_without_keys


def credentials(process: ProcessSettings) -> str:
    """Returns which credentials are required, for the log and the capabilities."""
    if process.jwt_issuer is not None:
        return f"{KEYS_AND_TOKENS if process.keys is not None else TOKENS} {process.jwt_issuer}"
    if process.keys is not None:
        return KEYS
    return CREDENTIALS if is_loopback(process.host) else OPEN


def access_of(process: ProcessSettings, observer: Observer) -> Access | None:
    """Returns the access rules from the key file and the token issuer; None if neither is configured.

    Raises SettingsError.
    """
    tokens = _tokens_of(process, observer)
    if process.keys is None and tokens is None:
        return None
    try:
        return Access(process.keys, SystemClock(), observer, tokens)
    except KeysUnreadable as error:
        raise SettingsError(f"keys: {error}") from error


def _tokens_of(process: ProcessSettings, observer: Observer) -> "BearerTokens | None":
    """Returns the verifier of the issuer's tokens, if an issuer is configured. Without `jwt_keys` the issuer's
    configuration names its keys.
    """
    named = {name: getattr(process, name) for name in ("jwt_issuer", "jwt_audience", "jwt_keys")}
    if not any(named.values()):
        return None
    if missing := [name for name in ("jwt_issuer", "jwt_audience") if not named[name]]:
        raise SettingsError(f"{', '.join(missing)}: without it no token can be checked; name it, or none of {[*named]}")
    try:
        from oncegate.transports.access.issuer_keys import IssuerKeys, IssuerKeysUnreadable
        from oncegate.transports.access.tokens import ALGORITHMS, BearerTokens, TokenRules
    except ModuleNotFoundError as error:
        raise SettingsError(f"jwt_issuer needs {error.name}: pip install 'oncegate[jwt]'") from error
    algorithms = tuple(name.strip() for name in process.jwt_algorithms.split(",") if name.strip())
    if not algorithms or (wrong := set(algorithms) - set(ALGORITHMS)):
        raise SettingsError(
            f"jwt_algorithms: {', '.join(sorted(wrong)) if algorithms else 'none'} is not taken; "
            f"there are {', '.join(ALGORITHMS)}"
        )
    rules = TokenRules(
        named["jwt_issuer"],
        named["jwt_audience"],
        algorithms,
        process.jwt_roles_claim,
        process.jwt_namespaces_claim,
        process.jwt_leeway_ms,
        process.jwt_tenant_claim,
    )
    clock, discovered = SystemClock(), not named["jwt_keys"]
    try:
        keys = IssuerKeys(named["jwt_keys"] or named["jwt_issuer"], clock, observer, discovered)
    except IssuerKeysUnreadable as error:
        which = "jwt_issuer, whose keys are looked for as jwt_keys is not given" if discovered else "jwt_keys"
        raise SettingsError(f"{which}: {error}") from error
    return BearerTokens(rules, keys, clock)


def tls_of(process: ProcessSettings, observer: Observer) -> Tls | None:
    """Returns the TLS certificates of both servers; None if none are configured. Raises SettingsError."""
    if process.tls_certificate is None:
        for name in ("tls_key", "tls_client_ca"):
            if getattr(process, name) is not None:
                raise SettingsError(f"{name} goes with tls_certificate: name both, or neither")
        return None
    try:
        return Tls(TlsFiles(process.tls_certificate, process.tls_key, process.tls_client_ca), observer)
    except TlsUnreadable as error:
        raise SettingsError(f"tls_certificate, tls_key, tls_client_ca: {error}") from error


def traced(observer: Observer) -> AbstractAsyncContextManager[Tracer | None]:
    """Records requests as OpenTelemetry's environment variables configure; yields None if tracing is off.

    Raises SettingsError if a variable has an unusable value or the extra is missing.
    """
    try:
        wanted = wanted_traces(os.environ)
        if wanted is None:
            return nullcontext()
        from oncegate.runtime.tracing import exporters, tracing

        return tracing(exporters(wanted), observer, SystemClock())
    except ModuleNotFoundError as error:
        raise SettingsError(f"traces need {error.name}: pip install 'oncegate[otel]'") from error
    except ValueError as error:
        raise SettingsError(f"the environment's OTEL_ variables: {error}") from error


def is_loopback(host: str) -> bool:
    """Returns whether an address is reachable only from this machine."""
    address = _address(host)
    return address is not None and address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        return None


def allowed_address(host: str, guarded: bool) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Returns the address to listen on; without `guarded` only a loopback address is allowed. Raises SettingsError."""
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
    """Returns a socket bound to an address that `allowed_address` permits.

    Raises SettingsError if the address is not permitted or the port is in use.
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
