"""The name of a batch: what makes two writes the same write."""

import re
from dataclasses import dataclass

TOPIC = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,248}")  # the gateway's rule, and Kafka's


@dataclass(frozen=True)
class Name:
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
