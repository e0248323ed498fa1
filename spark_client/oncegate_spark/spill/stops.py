"""What stops an entry and all behind it, told with its number, which `Spill.set_aside` asks for. No I/O."""

from pathlib import Path

from oncegate_spark.errors import BadOption, OncegateError, Outcome, Stopped
from oncegate_spark.spill.entry import SpillEntry


def stopped(error: OncegateError, folder: Path, number: int) -> OncegateError:
    """The same error, which names the entry as well; `extra["spill_number"]` is its number."""
    text = f"entry {number} of {folder} is stopped, and all behind it: mend it, or set_aside({number}): {error}"
    stop = type(error)(text, outcome=error.outcome, code=error.code)
    stop.extra = error.extra | {"spill_number": number}
    return stop


def check_namespace(entry: SpillEntry, namespace: str) -> None:
    """Raises BadOption where the entry is of another namespace than the gateway speaks to."""
    if entry.namespace != namespace:
        raise BadOption(
            f"the spill folder holds rows of namespace {entry.namespace!r}, and this gateway speaks to {namespace!r}: "
            "give each namespace a folder of its own; nothing of them was sent"
        )


def check_none_stale(entry: SpillEntry, stale: int) -> None:
    """Raises Stopped where the gateway has told some rows STALE: the entry may be the only copy that is left."""
    if stale:
        raise Stopped(
            f"{stale} of {entry.rows.num_rows} rows for {entry.topic!r} are STALE: their ids are older than the "
            "namespace's horizon (id_time), and forgotten if they were ever known. The others are done, these were not "
            "written now; look in the topic for them, set the entry aside, and produce what is missing under new ids; "
            "unknown: whether they were written before",
            outcome=Outcome.UNKNOWN,
            code="SPILL_STALE",
        )
