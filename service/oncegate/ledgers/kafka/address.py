"""Parses the URL of ledgers on Kafka: kafka://HOST:PORT[,HOST:PORT...]/PREFIX[?OPTION=VALUE&...]

replication      replication factor of each created topic (3)
min_insync       min.insync.replicas of each topic: replicas that have a record before it is acknowledged (2)
master_key       file with the key that wraps the namespaces' keys: 32 bytes, or 64 hexadecimal digits
old_master_key   previous master key, set while the master key is rotated
bare_key=yes     stores the namespaces' keys unwrapped: anyone who can read the topics can test which ids exist
runs             local folder for the part of the index that memory need not hold; without it, all is in memory
send_ms          timeout for sending a transaction (20000)
commit_ms        timeout for ending a transaction (10000)
takeover_ms      silence of the owning gateway after which a standby takes over (10000)
compression      codec for batches of rows in users' topics: none, lz4 or zstd (none)
stage_cache_mib  memory for copies of staged rows whose batch is not committed yet, in MiB (256)

The connection options are in `security`.
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
# Kafka limits topic names to 249 characters; the namespace's name and the suffix need the rest.
_PREFIX = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Options passed to `security`, misspelt ones included.
_OF_CONNECTIONS = re.compile(r"^(security|sasl|ssl)|password")
# Added to the broker's transaction timeout beyond sending and committing, so that the outcome can be resolved.
_SPARE_MS = 30_000
_EXAMPLE = "kafka://localhost:9092/oncegate?master_key=/etc/oncegate/master.key"


@dataclass(frozen=True, slots=True)
class Address:
    """Location and options of ledgers on Kafka. `shown`: the form for log lines."""

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
    # None: send_ms + commit_ms + `_SPARE_MS`.
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
        """Returns the keyword arguments of aiokafka clients; password and certificate files are read now."""
        return {"bootstrap_servers": self.bootstrap.split(","), **self.security.client_arguments()}

    @property
    def runs_folder(self) -> Path | None:
        """Returns the folder for the LSM runs of this prefix, a subfolder of `runs`;
        several prefixes may share `runs`.
        """
        return None if self.runs is None else self.runs / self.prefix

    @property
    def deadlines(self) -> Deadlines:
        total_ms = self.send_ms + self.commit_ms
        return Deadlines(total_ms, self.send_ms, self.commit_ms, self.transaction_ms or total_ms + _SPARE_MS)


def parse_address(place: str) -> Address:
    """Parses the part of a URL after `kafka:`. Raises BadRequest: it is invalid."""
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
