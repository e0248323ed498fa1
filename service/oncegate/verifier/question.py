"""Defines the subject of a comparison; an interrupted run resumes only for an unchanged subject."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class VerifyQuestion:
    """The input, ledger and output to be compared.

    columns: the input columns that are the id.
    id_set: the dedup scope in which the ledger is asked.
    output: kafka://…; "" for the gateway's own topic.
    output_id: where a Kafka record has its id.
    url: of the gateway.
    registry: of the schemas of values, "" for none.
    registry_ca: the CA of its certificate.
    """

    input: Path
    columns: tuple[str, ...]
    url: str
    namespace: str
    topic: str
    id_set: str
    output: str = ""
    output_id: str = ""
    registry: str = ""
    registry_ca: Path | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """Returns everything that must be unchanged to resume a run: the file's current state, and all names but the
        gateway's.
        """
        status = self.input.stat()
        identity = {**asdict(self), "input": str(self.input.resolve()), "columns": list(self.columns)}
        # States of earlier versions have no registry.
        left_out = {"registry_ca"} if self.registry else {"registry", "registry_ca"}
        identity = {name: value for name, value in identity.items() if name not in left_out}
        if self.input.suffix.lower() in {".csv", ".ndjson", ".jsonl", ".json"}:
            identity["text"] = "exact"  # runs of before took types from the rows around
        return {**identity, "url": "", "input_bytes": status.st_size, "input_changed_ns": status.st_mtime_ns}
