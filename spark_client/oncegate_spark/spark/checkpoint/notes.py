"""Notes of foreach_batch on the driver, for the tasks of the writes inside it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from oncegate_spark.spark.checkpoint.offset_log import BatchInput
from oncegate_spark.spark.checkpoint.reads import Reads


@dataclass(frozen=True)
class DriverNotes:
    """Data that only the driver has when a batch begins. `marks`: newest ledger position per namespace."""

    input: BatchInput | None = None
    checkpoint: str | None = None
    run: str | None = None
    marks: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Encodes the notes as text, which Spark passes as a local property."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | None) -> "DriverNotes | None":
        """Decodes the notes; None for None."""
        if not text:
            return None
        notes = json.loads(text)
        read = _input(notes["input"]) if notes["input"] else None
        return cls(read, notes["checkpoint"], notes["run"], notes["marks"])


def _input(fields: Mapping[str, Any]) -> BatchInput:
    reads = fields["reads"]
    return BatchInput(**{**fields, "reads": None if reads is None else Reads(**reads)})
