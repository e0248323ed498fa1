"""Stages and commits a batch over the wire, as a driver and its task do."""

from copy import copy
from typing import Any

import pyarrow as pa

from oncegate_spark import Gateway
from oncegate_spark.protocol.effort import new_token
from oncegate_spark.protocol.names import BatchName


def body(table: Any) -> memoryview:
    """Encodes rows as a request body."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())


class Batch:
    """The staged chunks of one task, and their commit. `chunks`: the number of earlier chunks, which are never
    staged."""

    def __init__(
        self, client: Gateway, topic: str, run: str = "r" * 8, chunks: int = 0, app: str = "app", version: int = 0
    ) -> None:
        self._client, self._run = client, run
        self.name, self.token, self.nonce = BatchName(app, str(version), topic), new_token(), new_token()
        self._rows, self._chunks, self._fingerprint = 0, chunks, 0

    def through(self, client: Gateway) -> "Batch":
        """Returns the same batch over another connection."""
        other = copy(self)
        other._client = client
        return other

    def stage(self, table: Any) -> None:
        """Stages one more chunk."""
        done = self._client.stage(self.name, f"run:{self._run}", self.token, self._chunks, body(table))
        self._chunks, self._rows = self._chunks + 1, self._rows + table.num_rows
        self._fingerprint = (self._fingerprint + done.fingerprint) % (1 << 128)

    def commit(self, *others: "Batch", **more: str) -> Any:
        """Commits the chunks of this task and then of others. `more`: members of the order."""
        winners = [one.winner for one in (self, *others)]
        order = {"run": self._run, "nonce": self.nonce, "winners": winners, "digest": None, "previous_digest": None}
        order |= more
        return self._client.commit(self.name, order)

    @property
    def winner(self) -> dict[str, object]:
        """Returns the task's message to its driver about its chunks."""
        fingerprint = self._fingerprint.to_bytes(16, "little").hex()
        return {"token": self.token, "chunks": self._chunks, "rows": self._rows, "fingerprint": fingerprint}
