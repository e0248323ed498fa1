"""Reads the URL of ledgers on Kafka: kafka://HOST:PORT[,HOST:PORT...]/PREFIX[?OPTION=VALUE&...]

replication      replicas of each topic that is made (3)
min_insync       of these, how many have a record before it is acknowledged (2)
master_key       a file with 32 bytes, or 64 hexadecimal digits, that the namespaces' keys are wrapped with
old_master_key   the file before it, while master keys are changed
bare_key=yes     namespaces' keys stand unwrapped in the topics: whoever reads those can tell which ids are known
runs             a folder on this machine for what memory need not hold; without it, all is in memory
send_ms          what a transaction may take to be sent (20000)
commit_ms        what its end may take (10000)
takeover_ms      without a word from the gateway that owns them, after which a standby takes over (10000)
compression      of batches of rows that go to users' topics: none, lz4 or zstd (none)
stage_cache_mib  rows that wait for the commit of their batch are held in memory besides, up to so many MiB (256)

Beside these stands what `security` reads: how clients connect.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args
from urllib.parse import parse_qsl

from oncegate.core.errors import BadRequest
from oncegate.ledgers.kafka.compression import Compression
from oncegate.ledgers.kafka.security import PARAMETERS, Security
from oncegate.ledgers.kafka.watch import Deadlines
from oncegate.ledgers.url_options import any_number, file, folder, number, require_keys, without_passwords, yes

_SERVER = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
# Kafka takes 249 characters of a topic's name; a namespace's name and what comes behind it need the rest.
_PREFIX = re.compile(r"[A-Za-z0-9_-]{1,64}")
# What is meant for `security`, also where it is misspelt.
_OF_CONNECTIONS = re.compile(r"^(security|sasl|ssl)|password")
# What a broker's transaction may last beyond sending and committing, in which it is decided what became of it.
_SPARE_MS = 30_000
_EXAMPLE = "kafka://localhost:9092/oncegate?master_key=/etc/oncegate/master.key"


@dataclass(frozen=True, slots=True)
class Address:
    """Says where ledgers on Kafka are, and how they are kept. `shown`: what log lines say of it."""

    bootstrap: str
    prefix: str
    replication: int = 3
    min_insync: int = 2
    master_key: Path | None = None
    old_master_key: Path | None = None
    bare_key: bool = False
    runs: Path | None = None
    send_ms: int = 20_000
    commit_ms: int = 10_000
    # None: as long as both, and `_SPARE_MS`.
    transaction_ms: int | None = None
    takeover_ms: int = 10_000
    compression: Compression = "none"
    stage_cache_mib: int = 256
    security: Security = field(default_factory=Security)

    @property
    def shown(self) -> str:
        return f"kafka://{self.bootstrap}/{self.prefix}"

    @property
    def settings(self) -> dict[str, Any]:
        """Returns the arguments of every client of the brokers, with files as they are now."""
        return {"bootstrap_servers": self.bootstrap.split(","), **self.security.client_arguments()}

    @property
    def runs_folder(self) -> Path | None:
        """Returns the folder of these ledgers' runs: prefixes may share the one above it."""
        return None if self.runs is None else self.runs / self.prefix

    @property
    def deadlines(self) -> Deadlines:
        """Returns how long each step of a transaction may take."""
        total_ms = self.send_ms + self.commit_ms
        return Deadlines(total_ms, self.send_ms, self.commit_ms, self.transaction_ms or total_ms + _SPARE_MS)


def parse_address(place: str) -> Address:
    """Parses the part of a URL after `kafka:`. BadRequest: it is invalid; the text has a correct example."""
    where, _, query = place.partition("?")
    servers, slash, prefix = where.removeprefix("//").partition("/")
    if not where.startswith("//") or not slash or not all(map(_SERVER.fullmatch, servers.split(","))):
        shown = without_passwords(f"kafka:{where}")
        raise BadRequest(f"{shown} names no brokers and prefix; it is written as {_EXAMPLE}")
    if not _PREFIX.fullmatch(prefix):
        raise BadRequest(f"the prefix {prefix!r} is not 1 to 64 of A-Z, a-z, 0-9, '_', '-': topics begin with it")
    return _checked(Address(servers, prefix, **_options(query)))


def _options(query: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    of_connections = []
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in found:
            raise BadRequest(f"the ledger's URL has {name} twice")
        if name in PARAMETERS or _OF_CONNECTIONS.search(name):
            of_connections.append((name, value))
        elif name not in _READERS:
            raise BadRequest(f"the ledger's URL has {name}, which is none of {', '.join((*_READERS, *PARAMETERS))}")
        else:
            found[name] = _READERS[name](name, value)
    return {**found, "security": Security.parsed(of_connections)}


def _checked(address: Address) -> Address:
    if not 1 <= address.min_insync <= address.replication:
        raise BadRequest(
            f"min_insync={address.min_insync} is more than replication={address.replication}: nothing could be written"
        )
    if address.transaction_ms is not None and address.transaction_ms <= address.send_ms + address.commit_ms:
        raise BadRequest(
            f"transaction_ms={address.transaction_ms} of the ledger's URL is not longer than send_ms and commit_ms "
            f"together ({address.send_ms + address.commit_ms}): brokers would abort what is still waited for"
        )
    require_keys(address.master_key, address.old_master_key, address.bare_key, "topics")
    return address


def _compression(name: str, value: str) -> str:
    if value not in (known := get_args(Compression)):
        raise BadRequest(f"{name}={value} of the ledger's URL is none of {', '.join(known)}")
    return value


_READERS = {
    "replication": number,
    "min_insync": number,
    "master_key": file,
    "old_master_key": file,
    "bare_key": yes,
    "runs": folder,
    "send_ms": number,
    "commit_ms": number,
    "transaction_ms": number,
    "takeover_ms": number,
    "compression": _compression,
    "stage_cache_mib": any_number,
}
