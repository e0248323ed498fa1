"""Checks the key file and the TLS certificates."""

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509

from oncegate.cli.doctor.findings import DoctorFinding, ok, warning, wrong
from oncegate.clock import SystemClock
from oncegate.core.errors import SettingsError
from oncegate.doors import is_loopback, tls_of
from oncegate.settings import Settings
from oncegate.transports.access import keys
from oncegate.transports.access.rights import Role

# Time to renew certificates by hand.
SOON = timedelta(days=14)


class _Quiet:
    """An observer that discards events, since problems are reported as findings."""

    def event(self, name: str, /, **fields: object) -> None:
        """Discards the event."""


def key_file(settings: Settings) -> Iterator[DoctorFinding]:
    """Checks that the key file is readable by its owner only, and that at least one key has the role admin."""
    path = settings.process.keys
    if path is None:
        if settings.process.insecure_without_keys and not is_loopback(settings.process.host):
            why = "any caller that reaches the gateway may do everything"
            yield warning("keys", "insecure_without_keys is set", why, "oncegate keys add, and the setting keys")
        else:
            yield ok("keys", "none: loopback alone is listened on, unless tokens are set")
        return
    try:
        keys_read = keys.read(path)
    except keys.KeysUnreadable as error:
        yield wrong(
            "keys", str(error), "no start succeeds, and a change does not count", "oncegate keys list --keys FILE"
        )
        return
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        why = "other users can read or change the hashes of secrets and the roles"
        yield warning("keys", f"{path} is open to others than its owner", why, f"chmod 600 {path}")
    if not keys_read:
        yield wrong("keys", f"{path} has no key", "no caller is accepted", "oncegate keys add NAME --role write")
    elif not any(Role.ADMIN in key.roles for key in keys_read.values()):
        why = "no key may create namespaces or resolve the claims of dead tasks"
        yield warning("keys", "no key has the role admin", why, "oncegate keys add NAME --role admin --namespace '*'")
    else:
        yield ok("keys", f"{len(keys_read)} keys in {path}")


def certificates(settings: Settings) -> Iterator[DoctorFinding]:
    """Checks that the certificates are valid, belong to their key and do not expire soon."""
    try:
        tls = tls_of(settings.process, _Quiet())
    except SettingsError as error:
        yield wrong("tls", str(error), "no start succeeds so", "name PEM files that belong together")
        return
    if tls is None or settings.process.tls_certificate is None:
        if not is_loopback(settings.process.host):
            yield warning(
                "tls", "none", "keys and rows can be read on the wire", "name a certificate by tls_certificate"
            )
        return
    yield from _end(settings.process.tls_certificate)
    key = settings.process.tls_key or settings.process.tls_certificate
    if key.stat().st_mode & stat.S_IRWXO and key.stat().st_uid == os.getuid():
        yield warning("tls", f"{key} is readable by every user", "the private key is in it", f"chmod o-rwx {key}")


def _end(path: Path) -> Iterator[DoctorFinding]:
    end = x509.load_pem_x509_certificates(path.read_bytes())[0].not_valid_after_utc
    now = datetime.fromtimestamp(SystemClock().wall_ms() / 1000, UTC)
    validity = f"{path} is good until {end:%Y-%m-%d %H:%M} UTC"
    if end < now:
        yield wrong(
            "tls",
            validity,
            "every client refuses it",
            "renew it; the gateway takes the new file with the next connection",
        )
    elif end < now + SOON:
        yield warning("tls", validity, "then every client refuses it", "renew it")
    else:
        yield ok("tls", validity)
