"""Parses the URL of ledgers on Redis: redis://HOST:PORT/PREFIX[?OPTION=VALUE&...]; rediss:// uses TLS.

master_key       file with the key that wraps the namespaces' keys: 32 bytes, or 64 hexadecimal digits
old_master_key   previous master key, set while the master key is rotated
bare_key=yes     stores the namespaces' keys unwrapped: anyone who can read the server can test which ids exist
no_witness=yes   runs without --witness: data that the server loses while no gateway runs is not noticed
wait_replicas    number of replicas that must have an append before it is acknowledged (0)
wait_ms          timeout for these replicas (1000)
reply_ms         timeout for an answer of the server, and for connecting (5000)
takeover_ms      silence of the owning gateway after which a standby takes over (10000)
outputs          streams: the server stores rows of topics; none: it stores only claims, and rows are refused (streams)
runs             local folder for the part of the index that memory need not hold; without it, all is in memory
db               number of the server's database (0)
user             user name
password_file    file with the password, in one line; the URL never contains it
ssl_cafile       CAs that may sign the server's certificate, as PEM (default: the system's)
ssl_certfile     this client's certificate, as PEM
ssl_keyfile      the certificate's key
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from oncegate.core.errors import BadRequest
from oncegate.ledgers.url_options import any_number, file, folder, number, require_keys, yes

_SERVER = re.compile(r"(?:([A-Za-z0-9._-]+)|\[([0-9A-Fa-f:.]+)\]):([0-9]{1,5})")
# Begins with a letter: other clients interpret a number as the database.
_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_EXAMPLE = "redis://localhost:6379/oncegate?master_key=/etc/oncegate/master.key"
OUTPUTS = ("streams", "none")
_OF_TLS = ("ssl_cafile", "ssl_certfile", "ssl_keyfile")


@dataclass(frozen=True, slots=True)
class Address:
    """Location and options of ledgers on Redis. `shown`: the form for log lines."""

    host: str
    port: int
    prefix: str
    tls: bool = False
    master_key: Path | None = None
    old_master_key: Path | None = None
    bare_key: bool = False
    no_witness: bool = False
    wait_replicas: int = 0
    wait_ms: int = 1_000
    reply_ms: int = 5_000
    takeover_ms: int = 10_000
    outputs: str = OUTPUTS[0]
    runs: Path | None = None
    db: int = 0
    user: str | None = None
    password_file: Path | None = None
    ssl_cafile: Path | None = None
    ssl_certfile: Path | None = None
    ssl_keyfile: Path | None = None

    @property
    def shown(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"redis{'s' * self.tls}://{host}:{self.port}/{self.prefix}"

    @property
    def claims_only(self) -> bool:
        """True if the URL has outputs=none, so that all rows are refused."""
        return self.outputs == "none"

    @property
    def runs_folder(self) -> Path | None:
        """Returns the folder for the LSM runs of this prefix, a subfolder of `runs`;
        several prefixes may share `runs`.
        """
        return None if self.runs is None else self.runs / self.prefix

    def password(self) -> str | None:
        """Reads the password from its file. Raises BadRequest: it cannot be read."""
        if self.password_file is None:
            return None
        try:
            return self.password_file.read_text().strip()
        except (OSError, ValueError) as error:
            raise BadRequest(f"password_file={self.password_file} of the ledger's URL cannot be read") from error


def parse_address(place: str, tls: bool = False) -> Address:
    """Parses the part of a URL after `redis:` or `rediss:`. Raises BadRequest: it is invalid."""
    where, _, query = place.partition("?")
    server, slash, prefix = where.removeprefix("//").partition("/")
    found = _SERVER.fullmatch(server)
    if not where.startswith("//") or not slash or found is None:
        # The text omits the server part: text before an @ may be a password.
        raise BadRequest(f"the ledger's URL names no server and prefix; it is written as {_EXAMPLE}")
    if not _PREFIX.fullmatch(prefix):
        raise BadRequest(
            f"the prefix {prefix!r} is not 1 to 64 of A-Z, a-z, 0-9, '_', '-', a letter first: keys begin with it; a "
            "database has the option db"
        )
    name, address, port = found.groups()
    return _checked(Address(name or address, int(port), prefix, tls, **_options(query)))


def _options(query: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in found:
            raise BadRequest(f"the ledger's URL has {name} twice")
        if name not in _READERS:
            raise BadRequest(f"the ledger's URL has {name}, which is none of {', '.join(_READERS)}")
        found[name] = _READERS[name](name, value)
    return found


def _checked(address: Address) -> Address:
    require_keys(address.master_key, address.old_master_key, address.bare_key, "server")
    if not address.tls and (given := [name for name in _OF_TLS if getattr(address, name)]):
        raise BadRequest(f"{given[0]} does nothing with redis://; write rediss://")
    if address.ssl_keyfile and not address.ssl_certfile:
        raise BadRequest("ssl_keyfile needs ssl_certfile, the certificate that it belongs to")
    if address.user and not address.password_file:
        raise BadRequest("the ledger's URL has user without password_file")
    return address


def _text(name: str, value: str) -> str:
    if not value:
        raise BadRequest(f"{name} of the ledger's URL is empty")
    return value


def _outputs(name: str, value: str) -> str:
    if value not in OUTPUTS:
        raise BadRequest(f"{name}={value} of the ledger's URL is none of {', '.join(OUTPUTS)}")
    return value


_READERS: dict[str, Callable[[str, str], Any]] = {
    "master_key": file,
    "old_master_key": file,
    "bare_key": yes,
    "no_witness": yes,
    "wait_replicas": any_number,
    "wait_ms": number,
    "reply_ms": number,
    "takeover_ms": number,
    "outputs": _outputs,
    "runs": folder,
    "db": any_number,
    "user": _text,
    "password_file": file,
    "ssl_cafile": file,
    "ssl_certfile": file,
    "ssl_keyfile": file,
}
