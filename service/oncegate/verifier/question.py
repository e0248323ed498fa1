"""Says what is compared with what: the same question goes on where it was interrupted, another one begins anew."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class VerifyQuestion:
    """Names input, ledger and output.

    columns: of the input, that are the id. id_set: in which the ledger is asked. output: kafka://…, "" for the
    gateway's own topic; output_id: where a record of Kafka has its id. url: of the gateway. registry: of the schemas of
    values, "" for none; registry_ca: who signed its certificate.
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
        """Returns what must be the same for a run to go on: the file as it is now, and all names but the gateway's."""
        status = self.input.stat()
        identity = {**asdict(self), "input": str(self.input.resolve()), "columns": list(self.columns)}
        # Runs of before know no registry.
        left_out = {"registry_ca"} if self.registry else {"registry", "registry_ca"}
        identity = {name: value for name, value in identity.items() if name not in left_out}
        if self.input.suffix.lower() in {".csv", ".ndjson", ".jsonl", ".json"}:
            identity["text"] = "exact"  # runs of before took types from the rows around
        return {**identity, "url": "", "input_bytes": status.st_size, "input_changed_ns": status.st_mtime_ns}
