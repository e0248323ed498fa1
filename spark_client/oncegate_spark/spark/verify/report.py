"""What a comparison has found: how many ids are of each kind, and which."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# As `oncegate verify` has them.
OK, MISSING, NOT_WRITTEN, DOUBLED = "ok", "missing", "not_written", "doubled"
HELD, UNRECORDED, FOREIGN = "held", "unrecorded", "foreign"
KINDS = {
    OK: "in the input, known to the ledger, and in the output once",
    MISSING: "the ledger knows it as written, and the output lacks it",
    NOT_WRITTEN: "the input has it, neither the ledger nor the output does",
    DOUBLED: "in the output more than once",
    HELD: "the output lacks it, and a claim of it is open or was left: ask again",
    UNRECORDED: "in the output once, and not known as written: a retry would write it again",
    FOREIGN: "in the output, and not in the input",
}


@dataclass(frozen=True)
class Verified:
    """Tells of what kind the ids of a comparison are.

    ids         how many ids are of each kind, by its name in KINDS; those of no id too
    without_id  rows of the output whose id is null or empty
    rows        a DataFrame, kept by Spark until `rows.unpersist()`: the id columns as text, or as bytes where the
                input has bytes, `kind`, and `copies`, in how many rows of the output the id is
    """

    ids: Mapping[str, int]
    without_id: int
    rows: "DataFrame"

    @property
    def is_well(self) -> bool:
        """Whether all ids are ok, and no row of the output is without one."""
        return not self.without_id and not any(count for kind, count in self.ids.items() if kind != OK)

    def __str__(self) -> str:
        lines = [f"{count:>13,} {kind:<12} {KINDS[kind]}" for kind, count in self.ids.items() if count or kind == OK]
        if self.without_id:
            lines.append(f"{self.without_id:>13,} rows of the output have no id (null or empty)")
        return "\n".join(lines)
