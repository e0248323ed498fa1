"""The options of the Spark sink: read once, checked on the driver, carried to the tasks. `readers` has the source's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from oncegate_spark.errors import BadOption
from oncegate_spark.protocol.address import Address
from oncegate_spark.protocol.effort import TIMEOUT_MS
from oncegate_spark.protocol.payloads import ON_CONFLICT

WRITES = ("staged", "ids", "claim", "plain")
READ = "read"
BY_ID = ("ids", "claim")
LATER = ("direct",)
SCOPES = ("namespace", "retry")
ASYNC_PROGRESS = "asyncprogresstrackingenabled"
# Each option, and the ways to write that do something with it; READ for reading.
WAYS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("url", "namespace", "topic", "timeoutMs", "checkpointLocation"), (*WRITES, READ)),
    "write": WRITES,
    **dict.fromkeys(("idCol", "producerCol", "sequenceCol", "scope", "digestCols", "onConflict"), BY_ID),
    "keyCol": ("staged", "ids", "plain"),
    **dict.fromkeys(("sink", "sinkPath", "leaseMs"), ("claim",)),
    "txnAppId": ("staged", *BY_ID),
    **dict.fromkeys(("txnVersion", "writeId", "onReplayMismatch"), ("staged",)),
    **dict.fromkeys(("startingOffsets", "endingOffsets", "maxRowsPerBatch"), (READ,)),
    **dict.fromkeys(("failOnDataLoss", "columns", "includeOffsets"), (READ,)),
}
NAMES = {name.lower(): name for name in WAYS}
SPARKS_OWN = {"path", "paths", "queryname"}


@dataclass(frozen=True)
class Options:
    """`raw` is everything the user gave, names in lower case: a sink finds its own options there.

    `lane_names`: the columns that are a row's producer and sequence, which take the place of an id. `is_scoped`: ids
    belong to the query's batch, and are forgotten when it is acked. `digest_names`: the columns that are the payload of
    a row's id; `on_conflict`: what becomes of a row whose id is written with another one.
    """

    url: str
    namespace: str
    topic: str
    write: str
    id_names: tuple[str, ...]
    lane_names: tuple[str, str] | None
    is_scoped: bool
    digest_names: tuple[str, ...]
    on_conflict: str
    key_names: tuple[str, ...]
    sink: str
    lease_ms: int | None
    timeout_ms: int
    app: str | None
    version: str | None
    write_id: str
    first_wins: bool
    checkpoint: str | None
    raw: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, given: Mapping[str, str]) -> "Options":
        """Raises BadOption with the line to write instead."""
        raw = lower(given)
        write = one_of("write", raw.get("write", "staged"), WRITES)
        no_slips(raw, write)
        options = cls(
            url=url_of(raw),
            namespace=raw.get("namespace", "default"),
            topic=topic_of(raw),
            write=write,
            id_names=names_in(raw.get("idcol", "")),
            lane_names=lane_in(raw),
            is_scoped=one_of("scope", raw.get("scope", "namespace"), SCOPES) == "retry",
            digest_names=names_in(raw.get("digestcols", "")),
            on_conflict=one_of("onConflict", raw.get("onconflict", "fail"), ON_CONFLICT),
            key_names=names_in(raw.get("keycol", "")),
            sink=raw.get("sink", ""),
            lease_ms=number(raw, "leaseMs", 1_000, 900_000),
            timeout_ms=timeout(raw),
            app=raw.get("txnappid"),
            version=raw.get("txnversion"),
            write_id=raw.get("writeid", ""),
            first_wins=one_of("onReplayMismatch", raw.get("onreplaymismatch", "fail"), ("fail", "first_wins"))
            == "first_wins",
            checkpoint=raw.get("checkpointlocation"),
            raw=raw,
        )
        options._check()
        return options

    def _check(self) -> None:
        if self.version is not None and self.app is None:
            raise BadOption(
                'txnVersion names nothing without txnAppId; add .option("txnAppId", "<a name for this job>")'
            )
        if self.write in BY_ID:
            self._check_ids()
        if self.write == "claim":
            self._check_claim()
        elif not self.topic:
            raise BadOption(f'write={self.write} needs a topic; add .option("topic", "<topic>")')

    def _check_ids(self) -> None:
        if not self.id_names and self.lane_names is None:
            raise BadOption(
                f'write={self.write} needs to know a row again; add .option("idCol", "<column>[,<column>]"), or, for '
                "rows of a source that numbers them (assign_sequences), producerCol and sequenceCol"
            )
        if self.id_names and self.lane_names is not None:
            raise BadOption("a row is known by idCol, or by producerCol and sequenceCol; leave one of them out")
        if self.lane_names is not None and self.is_scoped:
            raise BadOption("scope=retry is for idCol: sequences are forgotten when they are acked; leave scope out")
        self._check_payloads()
        if self.app is not None and not self.has_driver:
            raise BadOption(
                f"txnAppId does nothing with write={self.write}; it names the driver where there is a producerCol or "
                'scope=retry, and the batch with .option("write", "staged"): leave it out'
            )
        if self.has_driver and self.raw.get(ASYNC_PROGRESS, "").lower() == "true":
            raise BadOption(
                "asyncProgressTrackingEnabled writes the commit log late, so nobody knows when a batch will not be run "
                "again and may be acked: leave it out, or write without producerCol and scope"
            )

    def _check_payloads(self) -> None:
        if self.lane_names is not None and self.digest_names:
            raise BadOption(
                "digestCols tells payloads of one idCol apart; a sequence comes once from its source: leave it out"
            )
        if "onconflict" in self.raw and not self.digest_names:
            raise BadOption(
                "onConflict does nothing where no payloads are compared; add "
                '.option("digestCols", "<column>[,<column>]") or leave it out'
            )

    @property
    def has_driver(self) -> bool:
        """Somebody has to say that rows are not retried any more: the driver acks."""
        return self.lane_names is not None or self.is_scoped

    def _check_claim(self) -> None:
        if not self.sink:
            raise BadOption(
                'write=claim leaves the writing to you; add .option("sink", "my_module:factory"), or '
                '.option("sink", "oncegate_spark.spark.sinks:files").option("sinkPath", "/data/out")'
            )


def lower(given: Mapping[str, str]) -> dict[str, str]:
    """The options by their names in lower case, as Spark gives some of them."""
    return {name.lower(): value for name, value in given.items()}


def no_slips(raw: Mapping[str, str], way: str = READ) -> None:
    """Raises BadOption for what would be ignored in silence: misspelt, unknown, or of another way.

    With write=claim one that resembles none of ours may be the user's sink's.
    """
    for name in raw:
        if name in NAMES:
            _check_way(NAMES[name], way)
        elif name not in SPARKS_OWN:
            _check_stranger(name, way)


def _check_way(name: str, way: str) -> None:
    """Raises BadOption when the option does nothing in this way, with the ways in which it does."""
    ways = WAYS[name]
    if way in ways:
        return
    if way == READ:
        raise BadOption(f"{name} does nothing on a read; it is for writing ({_listed(ways)}): leave it out")
    if ways == (READ,):
        raise BadOption(f"{name} does nothing with write={way}; it is for reading: leave it out")
    others = f" (or {_listed(ways[1:])})" if ways[1:] else ""
    raise BadOption(
        f'{name} does nothing with write={way}; add .option("write", "{ways[0]}"){others} or leave {name} out'
    )


def _listed(ways: tuple[str, ...]) -> str:
    return ", ".join(f"write={way}" for way in ways)


def _check_stranger(name: str, way: str) -> None:
    near = get_close_matches(name, NAMES, n=1, cutoff=0.85)
    if near:
        raise BadOption(f'there is no option {name}; did you mean .option("{NAMES[near[0]]}", …)?')
    if way != "claim":
        taken = ", ".join(sorted(ours for ours, ways in WAYS.items() if way in ways))
        here = "on a read" if way == READ else f"with write={way}"
        raise BadOption(f"there is no option {name} {here}: leave it out; there are {taken}")


def url_of(raw: Mapping[str, str]) -> str:
    url = raw.get("url", "")
    Address.of(url)
    return url


def topic_of(raw: Mapping[str, str]) -> str:
    topic, path = raw.get("topic"), raw.get("path")
    if topic is not None and path is not None and topic != path:
        raise BadOption(f"option topic says {topic!r} and the path says {path!r}; give one of them")
    return topic or path or ""


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        later = " (not in this version)" if name == "write" and value in LATER else ""
        raise BadOption(f"{name} is {value!r}{later}; it is one of {', '.join(allowed)}")
    return value


def lane_in(raw: Mapping[str, str]) -> tuple[str, str] | None:
    """The columns of a row's producer and sequence; both or none."""
    producer, sequence = raw.get("producercol", "").strip(), raw.get("sequencecol", "").strip()
    if bool(producer) != bool(sequence):
        missing = "sequenceCol" if producer else "producerCol"
        raise BadOption(f'producerCol and sequenceCol go together; add .option("{missing}", "<column>")')
    return (producer, sequence) if producer else None


def names_in(text: str) -> tuple[str, ...]:
    """Names, comma separated."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def truth(raw: Mapping[str, str], name: str, otherwise: bool) -> bool:
    return one_of(name, raw.get(name.lower(), str(otherwise)).lower(), ("true", "false")) == "true"


def timeout(raw: Mapping[str, str]) -> int:
    return number(raw, "timeoutMs", 1_000, 86_400_000) or TIMEOUT_MS


def number(raw: Mapping[str, str], name: str, least: int, most: int, unit: str = "milliseconds") -> int | None:
    text = raw.get(name.lower())
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise BadOption(f"{name} is {text!r}; it is a whole number of {unit}, {least} to {most}")
    return int(text)
