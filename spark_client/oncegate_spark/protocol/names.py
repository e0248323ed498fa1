"""The names that requests carry: of a named batch, and of a writer, by which the gateway counts why duplicates come."""

import json
import re
from dataclasses import asdict, dataclass

from oncegate_spark.errors import BadOption

TOPIC = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,248}")  # the gateway's rule, and Kafka's


@dataclass(frozen=True)
class BatchName:
    """(app, version) say which batch of which job; topic and write_id tell several writes of one batch apart."""

    app: str
    version: str
    topic: str
    write_id: str = ""

    def __str__(self) -> str:
        which = f" ({self.write_id})" if self.write_id else ""
        return f"batch {self.version} of {self.app} to topic {self.topic}{which}"

    def members(self) -> dict[str, str]:
        """The name as the members of a request's JSON, or of its query."""
        return {"app": self.app, "version": self.version, "topic": self.topic, "write_id": self.write_id}


WRITER = "Oncegate-Writer"
# Of requests that claim, take or write; registering a driver says no more than its acks.
_VERBS = frozenset({"claim", "take", "produce", "stage", "commit", "register", "ask"})


@dataclass(frozen=True, kw_only=True)
class WriterId:
    """Names who writes, as far as it is known; None: it is not said.

    job            what writes, the same at each start: a streaming query's id, or any name
    run            one start of the job
    batch          a part of the job's input, the same whichever run reads it
    stage, task    a part of the batch's work
    stage_attempt, attempt  count the tries of the stage, and of the task within one try of its stage
    serial         counts the attempts of all tasks of a run, in the order in which they start
    speculation    a second attempt of a task may begin while the first one runs

    The gateway keeps it beside what is written, and compares it with the writer of what comes again: so its counters
    tell a task that is run again from a batch that is replayed, another job, or a source that has a record twice. It is
    never part of an id or a token. Raises BadOption where it is made.
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
                raise BadOption(f"{name} of a writer is {value!r}; it is a text, and not empty; nothing was sent")
        for name in ("stage", "stage_attempt", "task", "attempt", "serial"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31):
                raise BadOption(f"{name} of a writer is {value!r}; it is a whole number from 0 on; nothing was sent")

    def header(self) -> str:
        """Returns the header's value: JSON in ASCII, without what is not said."""
        said = {name: value for name, value in asdict(self).items() if value is not None and value is not False}
        return json.dumps(said, separators=(",", ":"))


def takes_writer(path: str) -> bool:
    """Says whether a request with this path may name its writer."""
    path = path.partition("?")[0]
    return path.rpartition(":")[2] in _VERBS and "/drivers/" not in path
