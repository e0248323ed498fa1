"""Writers for the kill loop: they retry as tasks and drivers do, die at bad moments, and keep a journal."""

import random
import threading
import uuid
from collections.abc import Iterator
from itertools import count

import pyarrow as pa

from oncegate.testing.oracle import AttemptAnswer, Attempted
from oncegate_spark.errors import StillBusy
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.names import BatchName
from oncegate_spark.sync.gateway import Gateway

LEASE_MS = 1_000


class Journal:
    """Every writer's actions and answers, and the sink of `claim` writers; survives the gateway."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.attempts: list[Attempted] = []
        self.sink: list[tuple[bytes, bytes]] = []
        self.done = 0

    def write(self, ids: list[str], content: bytes) -> None:
        with self._lock:
            self.sink += [(id_.encode(), content) for id_ in ids]

    def say(self, ids: list[str], content: bytes, said: AttemptAnswer) -> None:
        with self._lock:
            self.attempts += [Attempted(id_.encode(), content, said) for id_ in ids]
            self.done += 1


class ClaimWriter(threading.Thread):
    """Runs one task after another; some attempts die after the claim or after the write."""

    def __init__(self, gateway: Gateway, journal: Journal, stop: threading.Event, name: str, seed: int) -> None:
        super().__init__(name=name)
        self.gateway, self.journal, self.stop, self.random = gateway, journal, stop, random.Random(seed)
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            for task in count():
                if self.stop.is_set():
                    return
                self._task(self._ids(task))
        except BaseException as error:
            self.failure = error

    def _ids(self, task: int) -> list[str]:
        """Returns ids of this writer, ids that other writers use too, and one repetition."""
        own = [f"{self.name}-{task}-{n}" for n in range(20)]
        shared = [f"shared-{self.random.randrange(40 + 4 * task)}" for _ in range(4)]
        return [*own, *shared, own[0]]

    def _task(self, ids: list[str]) -> None:
        """Makes attempts until one of them completes every id."""
        content = b"the same whoever writes it"
        while not self._attempt(sorted(set(ids), key=ids.index), ids, content):
            pass

    def _attempt(self, left: list[str], asked: list[str], content: bytes) -> bool:
        dies_at = self.random.choices(["never", "claimed", "written"], [90, 6, 4])[0]
        attempt = self.gateway.attempt()
        while left:
            claimed = attempt.claim(asked if len(left) == len(set(asked)) else left, lease_ms=LEASE_MS)
            granted = list(claimed.granted)
            if dies_at == "claimed":
                return False
            self.journal.write(granted, content)
            if dies_at == "written":
                self.journal.say(granted, content, AttemptAnswer.UNKNOWN)
                return False
            try:
                attempt.complete(claimed)
            except StillBusy:
                self.journal.say(granted, content, AttemptAnswer.UNKNOWN)
                return False
            self.journal.say(granted, content, AttemptAnswer.WRITTEN)
            self.journal.say([id_ for id_ in claimed.dropped if id_ not in granted], content, AttemptAnswer.DUPLICATE)
            left = list(claimed.busy)
        return True


class StageDriver(threading.Thread):
    """A streaming query: each batch is staged by tasks and committed; some drivers die around the commit."""

    def __init__(self, gateway: Gateway, journal: Journal, stop: threading.Event, seed: int) -> None:
        super().__init__(name="driver")
        self.gateway, self.journal, self.stop, self.random = gateway, journal, stop, random.Random(seed)
        self.run_id = str(uuid.uuid4())
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            for batch in count():
                if self.stop.is_set():
                    return
                while not self._try(batch):
                    self.run_id = str(uuid.uuid4())
        except BaseException as error:
            self.failure = error

    def _try(self, batch: int) -> bool:
        name, ids = BatchName("kill-loop", str(batch), "staged"), [f"staged-{batch}-{n}" for n in range(60)]
        winners = [self._stage(name, part) for part in self._partitions(ids)]
        nonce, dies = uuid.uuid4().hex, self.random.random()
        if dies < 0.1:
            return False
        order = {
            "run": self.run_id,
            "nonce": nonce,
            "winners": winners,
            "digest": f"{batch:064x}",
            "previous_digest": f"{batch - 1:064x}" if batch else None,
            "on_replay_mismatch": "fail",
        }
        self.journal.say(ids, b"row", AttemptAnswer.UNKNOWN)
        self.gateway.commit(name, order)
        if dies < 0.3:
            return False
        self.journal.say(ids, b"row", AttemptAnswer.WRITTEN)
        return True

    def _partitions(self, ids: list[str]) -> Iterator[list[str]]:
        """Yields a different partitioning at every attempt, as Spark does after a restart."""
        parts = self.random.randint(1, 4)
        for part in range(parts):
            yield ids[part::parts]

    def _stage(self, name: BatchName, ids: list[str]) -> dict[str, object]:
        token, rows, total = uuid.uuid4().hex, 0, 0
        chunks = [ids[: len(ids) // 2], ids[len(ids) // 2 :]]
        for number, chunk in enumerate(chunks):
            batch = pa.record_batch([pa.array(chunk), pa.array(["row"] * len(chunk))], names=["id", "content"])
            body = next(iter(codecs.chunks([batch])))[0]
            staged = self.gateway.stage(name, f"run:{self.run_id}", token, number, body)
            rows, total = rows + staged.rows, total + staged.fingerprint
        fingerprint = (total % (1 << 128)).to_bytes(16, "little").hex()
        return {"token": token, "chunks": len(chunks), "rows": rows, "fingerprint": fingerprint}
