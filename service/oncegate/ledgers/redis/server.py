"""Checks a Redis server at each connection: whether it can hold a ledger, and how durable its appends are.

A ledger needs the primary (replicas may return stale data), no eviction (Redis would drop ids), Redis 7 (a script is
refused before it begins) and no cluster (a namespace's keys and the list have different hash tags). Durability is
reported, not required: only the operator knows the purpose of the server. A ledger with outputs=none refuses rows, so
that the server's memory holds ids only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from oncegate.core.errors import BadRequest, NotFound
from oncegate.ports import Origin

NOEVICTION = "noeviction"
OLDEST = 7
_UNKNOWN = "unknown"


class Unfit(Exception):
    """The server must not hold a ledger; the text names the reason and the remedy. Nothing was written."""


class Evicts(Unfit):
    """The server evicts keys when its memory is full, and may have done so already."""


@dataclass(frozen=True, slots=True)
class Server:
    """The server's answers to INFO and CONFIG GET. `config`: empty if this user has no right to CONFIG."""

    info: Mapping[str, str]
    config: Mapping[str, str]

    @property
    def run_id(self) -> str:
        """Returns the server's run id, which changes with each restart."""
        return self.info.get("run_id", "")

    def require_fit(self) -> None:
        version, policy = self.info.get("redis_version", "0"), self.info.get("maxmemory_policy", _UNKNOWN)
        if int(version.partition(".")[0]) < OLDEST:
            raise Unfit(f"Redis {version} is older than {OLDEST}")
        if self.info.get("cluster_enabled") == "1":
            raise Unfit("it is part of a cluster; take a server of its own")
        if self.info.get("role") != "master":
            primary = f"{self.info.get('master_host')}:{self.info.get('master_port')}"
            raise Unfit(f"it is a replica of {primary}: name the primary")
        if policy != NOEVICTION:
            raise Evicts(
                f"its maxmemory-policy is {policy}, by which it forgets what it was given: CONFIG SET maxmemory-policy "
                f"{NOEVICTION}"
            )

    @property
    def room_bytes(self) -> tuple[int, int]:
        """Returns the free and total bytes of usable memory; (1, 1) if it is unbounded."""
        total = int(self.info.get("maxmemory", 0))
        if total == 0:
            return 1, 1
        used = int(self.info.get("used_memory", 0)) - int(self.info.get("mem_not_counted_for_evict", 0))
        return max(0, min(total, total - used)), total

    def durability(self, wait_replicas: int) -> str:
        """Describes in one line which failures an acknowledged append survives."""
        return f"{self._on_disk()}; {self._on_replicas(wait_replicas)}"

    def _on_disk(self) -> str:
        if self.info.get("aof_enabled") != "1":
            return "NOT DURABLE: appendonly no, so that a crash of the server loses what its last RDB file lacks"
        policy = self.config.get("appendfsync", _UNKNOWN)
        if policy == "always":
            return "durable, appendfsync always: synced before each answer"
        return f"NOT DURABLE when the power fails: appendfsync {policy}, the last seconds may be lost"

    def _on_replicas(self, wait_replicas: int) -> str:
        there = self.info.get("connected_slaves", _UNKNOWN)
        if wait_replicas:
            return f"{wait_replicas} of {there} replicas have it before it is acknowledged"
        if there in ("0", _UNKNOWN):
            return "no replica"
        return f"{there} replicas that nobody waits for: a failover may lose the last appends (wait_replicas)"


def parse_info(text: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in text.decode(errors="replace").splitlines() if line[:1] != "#")
    return {name: value.strip() for name, _, value in lines if name}


def parse_config(pairs: list[bytes]) -> dict[str, str]:
    """Parses the answer to CONFIG GET, in which names and values alternate."""
    texts = [one.decode(errors="replace") for one in pairs]
    return dict(zip(texts[::2], texts[1::2], strict=True))


_WHY = "the ledger's URL has outputs=none, by which its Redis server keeps claims and no rows"


class NoTopics:
    """Implements `ports.RowTopics` for outputs=none: refuses all rows and reads."""

    where = ""

    async def check(
        self,
        topic: str,
        schema: Any,
        batches: Sequence[Any],
        origin: Origin | None = None,
        waiting_bytes: int = 0,
        identified: bool = False,
        waiting_topics: Sequence[str] = (),
    ) -> NoReturn:
        raise BadRequest(
            f"topic {topic} takes no rows: {_WHY}; claim the ids and write the rows elsewhere, or leave outputs out. "
            "Nothing was written"
        )

    @property
    def columns(self) -> Any:
        return pa.schema([])

    def refuse_read(self, topic: str) -> NoReturn:
        """Raises NotFound: rows written before outputs=none was set still exist, but are not served."""
        raise NotFound(f"topic {topic} is not read here: {_WHY}; leave outputs out to read what was written before")
