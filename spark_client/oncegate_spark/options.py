"""The options of the Spark sink: read once, checked on the driver, carried to the tasks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from urllib.parse import urlsplit

from oncegate_spark.errors import BadOption
from oncegate_spark.protocol import TIMEOUT_MS

OURS = (
    *("url", "namespace", "topic", "write", "idCol", "sink", "sinkPath", "leaseMs", "timeoutMs"),
    *("txnAppId", "txnVersion", "writeId", "onReplayMismatch", "checkpointLocation"),
)
NAMES = {name.lower(): name for name in OURS}
SPARKS_OWN = {"path", "queryname"}
WRITES = ("staged", "claim", "plain")
LATER = ("ids", "direct")


@dataclass(frozen=True)
class Options:
    """`raw` is everything the user gave, names in lower case: a sink finds its own options there."""

    url: str
    namespace: str
    topic: str
    write: str
    id_names: tuple[str, ...]
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
        raw = {name.lower(): value for name, value in given.items()}
        _no_slips(raw)
        options = cls(
            url=_url(raw),
            namespace=raw.get("namespace", "default"),
            topic=_topic(raw),
            write=_one_of("write", raw.get("write", "staged"), WRITES),
            id_names=tuple(name.strip() for name in raw.get("idcol", "").split(",") if name.strip()),
            sink=raw.get("sink", ""),
            lease_ms=_number(raw, "leaseMs", 1_000, 900_000),
            timeout_ms=_number(raw, "timeoutMs", 1_000, 86_400_000) or TIMEOUT_MS,
            app=raw.get("txnappid"),
            version=raw.get("txnversion"),
            write_id=raw.get("writeid", ""),
            first_wins=_one_of("onReplayMismatch", raw.get("onreplaymismatch", "fail"), ("fail", "first_wins"))
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
        if self.write == "claim":
            if not self.id_names:
                raise BadOption('write=claim needs to know a row again; add .option("idCol", "<column>[,<column>]")')
            if not self.sink:
                raise BadOption(
                    'write=claim leaves the writing to you; add .option("sink", "my_module:factory"), or '
                    '.option("sink", "oncegate_spark.sinks:files").option("sinkPath", "/data/out")'
                )
        elif not self.topic:
            raise BadOption(f'write={self.write} needs a topic; add .option("topic", "<topic>")')


def _no_slips(raw: Mapping[str, str]) -> None:
    """A misspelt option would be ignored in silence; one that resembles none of ours may be the sink's."""
    for name in raw:
        if name in NAMES or name in SPARKS_OWN:
            continue
        near = get_close_matches(name, NAMES, n=1, cutoff=0.85)
        if near:
            raise BadOption(f'there is no option {name}; did you mean .option("{NAMES[near[0]]}", …)?')


def _url(raw: Mapping[str, str]) -> str:
    url = raw.get("url", "")
    if urlsplit(url).scheme not in {"http", "https"}:
        raise BadOption(f'url is {url!r}; add .option("url", "http://gateway:8080")')
    return url


def _topic(raw: Mapping[str, str]) -> str:
    topic, path = raw.get("topic"), raw.get("path")
    if topic is not None and path is not None and topic != path:
        raise BadOption(f"option topic says {topic!r} and the path says {path!r}; give one of them")
    return topic or path or ""


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        later = " (not in this version)" if name == "write" and value in LATER else ""
        raise BadOption(f"{name} is {value!r}{later}; it is one of {', '.join(allowed)}")
    return value


def _number(raw: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    text = raw.get(name.lower())
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise BadOption(f"{name} is {text!r}; it is a whole number of milliseconds, {least} to {most}")
    return int(text)
