"""Counts ids and their duplicates by the program that brought them and its version, as `User-Agent` names it.

A client is of the first product of its `User-Agent`, where that is one of `NAMES`; any other is `other`, and one that
sends none is `none`. Versions are the callers' words: beyond `VERSIONS_MAX` pairs, in the order they come, they are
`other` too, so labels are bounded.
"""

import re
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache

from oncegate.core.causes import Cause

# Ours, and the usual libraries by which others call.
NAMES = frozenset(
    {
        *("oncegate-spark", "oncegate-python", "oncegate-go", "curl", "python-requests", "python-httpx", "aiohttp"),
        *("Python-urllib", "Go-http-client", "Java-http-client", "Apache-HttpClient", "okhttp", "node", "undici"),
        *("grpc-python", "grpc-python-asyncio", "grpc-go", "grpc-java-netty", "grpc-node-js", "grpc-dotnet", "grpc-c"),
    }
)
OTHER, NONE = "other", "none"
# A roll-out has two versions of each of a few programs at a time; each pair is some ten series.
VERSIONS_MAX = 32
_PRODUCT = re.compile(r"([A-Za-z][A-Za-z0-9-]{0,39})/([0-9][0-9A-Za-z.+-]{0,31})(?:[ (;].*)?", re.DOTALL)


@dataclass(slots=True)
class Client:
    """Counts what one client, of one version, has brought. duplicates: by `Cause`."""

    ids: int = 0
    duplicates: list[int] = field(default_factory=lambda: [0] * len(Cause))

    def add(self, causes: Sequence[int]) -> None:
        """Counts duplicates, by `Cause`."""
        for cause, count in enumerate(causes):
            self.duplicates[cause] += count


class Clients:
    """Counts what the clients of one gateway bring. by_name: by name and version."""

    def __init__(self) -> None:
        self.by_name: dict[tuple[str, str], Client] = {(OTHER, OTHER): Client()}

    def of(self, user_agent: str | None) -> Client:
        """Returns the counts of the client that names itself so; None: it names nothing."""
        name = product(user_agent)
        # One more for the rest.
        if name not in self.by_name and len(self.by_name) >= VERSIONS_MAX:
            name = OTHER, OTHER
        client = self.by_name.get(name)
        if client is None:
            client = self.by_name[name] = Client()
        return client


@lru_cache(maxsize=256)
def product(user_agent: str | None) -> tuple[str, str]:
    """Returns the client's name and version, of a `User-Agent`."""
    if not user_agent:
        return NONE, NONE
    found = _PRODUCT.fullmatch(user_agent)
    return (found[1], found[2]) if found is not None and found[1] in NAMES else (OTHER, OTHER)


# The client whose request the running task answers; None: no door has named it.
CLIENT: ContextVar[Client | None] = ContextVar("client", default=None)
