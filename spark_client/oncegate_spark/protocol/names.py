"""Names of batches and of writers in requests; the gateway classifies duplicates by their writers."""

import json
import re
from dataclasses import asdict, dataclass

from oncegate_spark.errors import BadOption

TOPIC = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,248}")  # the gateway's rule, and Kafka's


@dataclass(frozen=True)
class BatchName:
    """Name of a batch: `app` and `version` identify a batch of a job; `topic` and `write_id` distinguish several writes
    of it.
    """

    app: str
    version: str
    topic: str
    write_id: str = ""

    def __str__(self) -> str:
        which = f" ({self.write_id})" if self.write_id else ""
        return f"batch {self.version} of {self.app} to topic {self.topic}{which}"

    def members(self) -> dict[str, str]:
        """Returns the name as members of a JSON body or a query."""
        return {"app": self.app, "version": self.version, "topic": self.topic, "write_id": self.write_id}


WRITER = "Oncegate-Writer"
# Verbs of requests that claim or write. Registering a driver adds nothing to its acks.
_VERBS = frozenset({"claim", "take", "produce", "stage", "commit", "register", "ask"})


@dataclass(frozen=True, kw_only=True)
class WriterId:
    """Identifies the writer as far as the caller knows it; None means unknown.

        job            the program, the same at each start: the id of a streaming query, or any name
        run            one start of the job
        batch          a part of the job's input, the same in every run that reads it
        stage, task    a part of the batch's work
        stage_attempt, attempt  number of the stage's attempt, and of the task's attempt within it
        serial         number of the attempt among all task attempts of a run, in order of their start
        speculation    a second attempt of a task may start while the first one runs

    The gateway stores it with what is written and compares it with the writer of a duplicate. Its counters then
    distinguish a retried task from a replayed batch, another job, and a source that delivers a record twice. The writer
    is never part of an id or a token. Raises BadOption when constructed with invalid values.
    """

    job: str
    run: str | None = None
    batch: str | None = None
    stage: int | None = None
    stage_attempt: int | None = None
    task: int | None = None
    attempt: int | None = None
    serial: int | None = None
    speculation: bool = False

    def __post_init__(self) -> None:
        for name in ("job", "run", "batch"):
            value = getattr(self, name)
            if value is None and name != "job":
                continue
            if not isinstance(value, str) or not value:
                raise BadOption(f"{name} of a writer is {value!r}; it must be a non-empty text; nothing was sent")
        for name in ("stage", "stage_attempt", "task", "attempt", "serial"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31):
                raise BadOption(f"{name} of a writer is {value!r}; it must be a whole number from 0; nothing was sent")

    def header(self) -> str:
        """Returns the header's value: ASCII JSON of the members that are set."""
        members = {name: value for name, value in asdict(self).items() if value is not None and value is not False}
        return json.dumps(members, separators=(",", ":"))


def takes_writer(path: str) -> bool:
    """True if a request with this path may name its writer."""
    path = path.partition("?")[0]
    return path.rpartition(":")[2] in _VERBS and "/drivers/" not in path
