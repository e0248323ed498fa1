"""The promise of each write mode, in one table for capabilities, the log's first line and the documents."""

from dataclasses import dataclass


@dataclass(frozen=True)
class WriteMode:
    """One write mode and its promise. name: the value of Spark's option `write`. ledger: the only kind that has it."""

    name: str
    promise: str
    meaning: str
    ledger: str | None = None


WRITE_MODES: tuple[WriteMode, ...] = (
    WriteMode(
        "staged",
        "effectively once",
        "the gateway publishes a named batch when its driver commits it, all or nothing, once per name",
    ),
    WriteMode(
        "ids",
        "effectively once",
        "the caller sends rows with ids and the gateway writes them; an id is written once, whoever repeats it, for as "
        "long as ids are known",
    ),
    WriteMode(
        "claim",
        "at least once, duplicates bounded by takeovers",
        "the caller asks, writes to its own sink and completes; an id is written twice only if its lease ran out and "
        "another took it over, which is counted",
    ),
    WriteMode(
        "direct",
        "effectively once",
        "the caller writes into Kafka itself, fenced by a transactional id a lane, and asks which sequences are "
        "written; where the ledger is on Kafka",
        "kafka",
    ),
    WriteMode(
        "plain",
        "at least once",
        "no ids, on purpose: a repeated request is written again; the baseline of every comparison",
    ),
)


@dataclass(frozen=True)
class Lowered:
    """The weaker promise of some write modes under a namespace's setting. setting: its name."""

    setting: str
    modes: tuple[str, ...]
    promise: str
    meaning: str


# The first setting in force applies: it has the weakest promise.
SHADOW = Lowered(
    "shadow",
    ("ids", "claim"),
    "at least once",
    "shadow mode: every verdict is GRANTED, so nothing is deduplicated; duplicates are counted, and written again",
)
PASS_MARKED = Lowered(
    "on_ledger_down",
    ("claim",),
    "at least once, duplicates bounded by takeovers and by claims that pass unchecked while the ledger is down",
    "as ever while the ledger is up; while it is down (on_ledger_down is pass_marked) every id is GRANTED and marked "
    "unchecked, so it may be written again, which is counted",
)


@dataclass(frozen=True)
class Promised:
    """The promise of one write mode in a namespace. lowered_by: the setting that weakens it; None: no setting does."""

    promise: str
    meaning: str
    lowered_by: str | None = None


def promised(ledger: str, shadow: bool = False, pass_marked: bool = False) -> dict[str, Promised]:
    """Returns the promises of the write modes that a ledger (given by URL) supports under a namespace's settings."""
    lowered = [one for one, is_set in ((SHADOW, shadow), (PASS_MARKED, pass_marked)) if is_set]
    found: dict[str, Promised] = {}
    for mode in WRITE_MODES:
        if not _is_offered(mode, ledger):
            continue
        less = next((one for one in lowered if mode.name in one.modes), None)
        if less is None:
            found[mode.name] = Promised(mode.promise, mode.meaning)
        else:
            found[mode.name] = Promised(less.promise, less.meaning, less.setting)
    return found


def _is_offered(mode: WriteMode, ledger: str) -> bool:
    """Returns whether a ledger supports a write mode: `direct` only on Kafka; only `claim` with `outputs=none`."""
    scheme, _, rest = ledger.partition(":")
    is_known = mode.ledger in (None, scheme)
    return is_known and (mode.name == "claim" or "outputs=none" not in rest.partition("?")[2].split("&"))


CREDENTIALS = "none: this gateway listens on loopback only"
KEYS = "keys: each call needs one whose role allows it"
TOKENS = "tokens: each call needs one whose roles allow it, of the issuer"
KEYS_AND_TOKENS = "keys, or tokens: each call needs one whose role allows it; tokens are of the issuer"
OPEN = "NONE, AND NOT ONLY ON LOOPBACK: whoever reaches this gateway may do everything"

# By the scheme of the ledger's URL; a plain path is a log.
_DURABILITY = {
    "memory": "forgotten when this process ends",
    "log": "durable, synced each commit",
    "kafka": "durable, acknowledged by the in-sync replicas each commit",
    "redis": "as durable as its server",
    "rediss": "as durable as its server",
}
# Ledgers that may store keys of namespaces unwrapped, and where.
_BARE = {"kafka": "topics", "redis": "server", "rediss": "server"}


@dataclass(frozen=True)
class NamespacePromise:
    """The first log line of a namespace: its ledger, the durability of an append, and the promise of each mode.

    is_new: the ledger was empty before this process opened it.
    """

    namespace: str
    ledger: str
    is_new: bool
    durability: str
    promises: dict[str, str]

    def sentence(self) -> str:
        """Returns the log line as text; modes with the same promise are named together."""
        names: dict[str, list[str]] = {}
        for mode, promise in self.promises.items():
            names.setdefault(promise, []).append(mode)
        modes = "; ".join(_promised(promise, named) for promise, named in names.items())
        new = " NEW, EMPTY;" if self.is_new else ""
        return f"namespace {self.namespace}:{new} ledger {self.ledger} ({self.durability}); {modes}"


def promise_of(
    namespace: str,
    ledger: str,
    is_new: bool,
    server_durability: str = "",
    shadow: bool = False,
    pass_marked: bool = False,
) -> NamespacePromise:
    """Returns the promise of a namespace on a ledger, given by its URL.

    Args:
        server_durability: the durability of an append where a server's settings decide it; empty: unknown.
        shadow, pass_marked: the settings of the namespace that weaken the promise.
    """
    scheme = ledger.partition(":")[0]
    durability = server_durability or _DURABILITY.get(scheme, _DURABILITY["log"])
    if scheme in _BARE and "bare_key=yes" in ledger:
        durability += f", keys BARE: whoever reads its {_BARE[scheme]} can tell which ids are known"
    promises = {mode: of.promise for mode, of in promised(ledger, shadow, pass_marked).items()}
    return NamespacePromise(namespace, ledger, is_new, durability, promises)


def _promised(promise: str, names: list[str]) -> str:
    what, comma, bound = promise.partition(", ")
    several = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return f"{what} for {several}{comma}{bound}"
