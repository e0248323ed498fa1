"""Guarantee of each write mode, and the choice of a mode for a requested guarantee.

A guarantee describes what readers of the sink see. effectively_once: each row once, whatever fails. at_least_once:
every row, some perhaps repeatedly. at_most_once does not exist: no mode prefers losing a row to writing it twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from oncegate_spark.errors import BadOption
from oncegate_spark.spark.options.table import AT_LEAST_ONCE, BY_NAME, EFFECTIVELY_ONCE

# Weaker guarantee first.
ORDER = (AT_LEAST_ONCE, EFFECTIVELY_ONCE)
AT_MOST_ONCE = (
    "guarantee=at_most_once is not supported by any write mode: rows of a writer that died are written again. To get "
    "it "
    "between jobs, put oncegate_spark.dedup(df, …) in front of any sink: rows claimed by one job are never given to "
    "another, written or not"
)
OWN_SINK = (
    "guarantee=effectively_once is not available with a sink of your own: after a writer has been silent for a whole "
    "lease its rows are granted again, and the sink cannot undo its writes. Omit sink and write into a topic, or set "
    '.option("guarantee", "at_least_once"), where each such row is counted as a takeover'
)


@dataclass(frozen=True)
class Promise:
    """Strongest guarantee of a write mode, what it promises, and its limits."""

    guarantee: str
    keeps: str
    unless: str


PROMISES: Mapping[str, Promise] = {
    "staged": Promise(
        EFFECTIVELY_ONCE,
        "all rows of a batch are published together and once, or none of them, even if the batch is replayed",
        "a query with a deleted checkpoint is a new query and publishes everything again, unless it has a txnAppId",
    ),
    "ids": Promise(
        EFFECTIVELY_ONCE,
        "each id is written once in its dedup scope, whoever writes it again, including upstream",
        "an id is forgotten after the namespace's retention of ids; two rows with one id are one row",
    ),
    "claim": Promise(
        AT_LEAST_ONCE,
        "no row is lost, and a row is written again only after its writer was silent for a whole lease, or if an "
        "operator lets claims pass unchecked; each is counted",
        "rows written by a dead writer are not removed: takeovers bound the duplicates",
    ),
    "direct": Promise(
        EFFECTIVELY_ONCE,
        "each sequence of a producer is written once into a Kafka topic, without passing through the gateway",
        "a lane has one writer at a time: two concurrent tasks, as with speculation, fence each other",
    ),
    "plain": Promise(
        AT_LEAST_ONCE,
        "no row is lost",
        "rows of a retried task are written again",
    ),
}


def chosen_write(raw: Mapping[str, str]) -> str:
    """Returns the write mode for options with lower-case names.

    Raises BadOption if no mode, or not the given mode, has the requested guarantee.
    """
    if BY_NAME["guarantee"].key not in raw:
        return BY_NAME["write"].choice(raw)
    if raw[BY_NAME["guarantee"].key] == "at_most_once":
        raise BadOption(AT_MOST_ONCE)
    wanted = BY_NAME["guarantee"].choice(raw)
    if BY_NAME["write"].key not in raw:
        return _mode_for(wanted, raw)
    write = BY_NAME["write"].choice(raw)
    if ORDER.index(PROMISES[write].guarantee) < ORDER.index(wanted):
        enough = " or ".join(mode for mode, promise in PROMISES.items() if promise.guarantee == wanted)
        raise BadOption(
            f"write={write} guarantees {PROMISES[write].guarantee} at most ({PROMISES[write].unless}); for "
            f"guarantee={wanted} set write={enough}, or omit write"
        )
    return write


def _mode_for(wanted: str, raw: Mapping[str, str]) -> str:
    has_ids = "idcol" in raw or "producercol" in raw
    if wanted == EFFECTIVELY_ONCE:
        if "sink" in raw:
            raise BadOption(OWN_SINK)
        return "ids" if has_ids else "staged"
    if "sink" in raw:
        return "claim"
    return "ids" if has_ids else "plain"


def promise_rows() -> list[tuple[str, str, str, str]]:
    """Returns the documentation's table: write mode, guarantee, promise, limits."""
    return [(mode, promise.guarantee, promise.keeps, promise.unless) for mode, promise in PROMISES.items()]
