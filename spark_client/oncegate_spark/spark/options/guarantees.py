"""What each write mode keeps, in one table, and the mode that a wanted guarantee chooses.

A guarantee is about what a reader of the sink sees: effectively_once, each row once whatever fails; at_least_once, none
lost, some perhaps again. at_most_once is none of these: no mode loses a row rather than writing it twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from oncegate_spark.errors import BadOption
from oncegate_spark.spark.options.table import AT_LEAST_ONCE, BY_NAME, EFFECTIVELY_ONCE

# The one that keeps less first.
ORDER = (AT_LEAST_ONCE, EFFECTIVELY_ONCE)
AT_MOST_ONCE = (
    "guarantee=at_most_once is kept by no write mode: rows of a writer that died are written again. "
    "oncegate_spark.dedup(df, …) in front of any sink keeps it between jobs: what one job has taken no other one gets, "
    "written or not"
)
OWN_SINK = (
    "guarantee=effectively_once is not kept into a sink of yours: where a writer is silent for a whole lease its rows "
    "are granted again, and the sink cannot take back what it wrote. Leave sink out and write into a topic, or take "
    '.option("guarantee", "at_least_once"), where each such row is counted as a takeover'
)


@dataclass(frozen=True)
class Promise:
    """Says what a write mode keeps at most, in words, and what it does not keep."""

    guarantee: str
    keeps: str
    unless: str


PROMISES: Mapping[str, Promise] = {
    "staged": Promise(
        EFFECTIVELY_ONCE,
        "all rows of a batch are published together and once, or none of them, also when the batch is replayed",
        "a query with a deleted checkpoint is another query and publishes everything again, unless it has a txnAppId",
    ),
    "ids": Promise(
        EFFECTIVELY_ONCE,
        "each id is written once in its set of ids, whoever brings it again, also from upstream",
        "an id is forgotten behind the namespace's horizon; two rows with one id are one row",
    ),
    "claim": Promise(
        AT_LEAST_ONCE,
        "no row is lost, and one is written again only after its writer was silent for a whole lease, or where an "
        "operator lets claims pass unchecked; each is counted",
        "what a dead writer wrote is not taken back: takeovers bound the duplicates",
    ),
    "direct": Promise(
        EFFECTIVELY_ONCE,
        "each sequence of a producer is written once into a topic of Kafka, which rows reach past the gateway",
        "a lane is one task's at a time: two that run at once, as by speculation, fence each other",
    ),
    "plain": Promise(
        AT_LEAST_ONCE,
        "no row is lost",
        "whatever is run again is written again",
    ),
}


def chosen_write(raw: Mapping[str, str]) -> str:
    """Returns the write mode that options by their names in lower case ask for.

    Raises BadOption where the guarantee that is wanted is kept by no mode, or not by the one that is given.
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
            f"write={write} keeps {PROMISES[write].guarantee} and no more ({PROMISES[write].unless}); for "
            f"guarantee={wanted} write {enough}, or leave write out"
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
    """Returns the documentation's table: write mode, guarantee, what is kept, what is not."""
    return [(mode, promise.guarantee, promise.keeps, promise.unless) for mode, promise in PROMISES.items()]
