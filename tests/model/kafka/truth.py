"""The true content of a model's ledger, as it becomes readable, compared with every answer."""

from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.catalog import Dropped, Location, Wrote
from oncegate.ledgers.frames import Compacted, Frame
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.shard.blobs import Assembly
from oncegate.ledgers.kafka.shard.replay import Fold
from tests.model.kafka.brokers import COMMITTED, Brokers
from tests.model.kafka.users import UsersTruth
from tests.model.kit.replies import Broken

LEDGER = bytes(range(16))


@dataclass
class Truth:
    """Reads the ledger as it becomes readable, and records all answers."""

    brokers: Brokers
    fold: Fold = field(default_factory=lambda: Fold(LEDGER, "the truth"))
    assembly: Assembly = field(default_factory=lambda: Assembly("the truth"))
    read_to: int = 0
    there: set[bytes] = field(default_factory=set)
    ends: set[tuple[int, bytes]] = field(default_factory=set)
    named: set[int] = field(default_factory=set)
    refused: set[bytes] = field(default_factory=set)
    acknowledged: set[bytes] = field(default_factory=set)
    granted: Counter[bytes] = field(default_factory=Counter)
    # The number of entries up to the frame of each serial.
    counts: dict[int, int] = field(default_factory=dict)
    order: list[bytes] = field(default_factory=list)
    # The offsets of waiting stages, by range.
    waiting: dict[bytes, int] = field(default_factory=dict)
    # The last acknowledged holder of the lease.
    holder: bytes = b""

    def __post_init__(self) -> None:
        self.users = UsersTruth(self.brokers)

    FRAMES, STATES, STAGES = (Partition(f"p.default.{one}", 0) for one in ("ledger", "states", "stages"))

    def look(self) -> None:
        if any(entry.due == COMMITTED for entry in self.brokers.undone):
            raise Broken("UNDONE", "a marker aborts a committed append")
        log = self.brokers.log(self.FRAMES)
        for offset, entry in log.committed(self.read_to, log.end):
            try:
                for frame in self.assembly.add(offset, entry.value):
                    self._take(frame)
            except LedgerDamaged as error:
                raise Broken("CHAIN", error.detail) from error
        self.read_to = max(self.read_to, log.stable)
        self._require_undeleted()
        self.users.look()

    def _take(self, frame: Frame) -> None:
        self.fold.take(frame)
        self.ends.add((frame.serial, frame.chain))
        for entry in frame.body.entries:
            if entry in self.there:
                raise Broken("ONCE", f"{entry!r} is in two frames")
            if entry in self.refused:
                raise Broken("REFUSED", f"{entry!r} is there, and was refused")
            self.there.add(entry)
            self.order.append(entry)
        self.counts[frame.serial] = len(self.order)
        self._require_rows(frame)
        self.users.take(frame)
        self._wait(frame)

    def _wait(self, frame: Frame) -> None:
        for change in frame.body.changes:
            match change:
                case Compacted():
                    return
                case Wrote():
                    self.waiting[change.range_id] = change.location.offset
                case Dropped():
                    for range_id in change.range_ids:
                        del self.waiting[range_id]

    def entries_up_to(self, serial: int) -> set[bytes] | None:
        """Returns all entries of the frames up to this one, or None while that one cannot be read."""
        return set(self.order[: self.counts[serial]]) if serial in self.counts else None

    def _require_rows(self, frame: Frame) -> None:
        for change in frame.body.changes:
            if isinstance(change, Wrote):
                self.named.update(self._records_of(change.location, frame.serial))

    def _records_of(self, at: Location, serial: int) -> list[int]:
        """Returns the offsets of a stage's records, which must exist."""
        found, data = list[int](), b""
        rows = self.brokers.log(self.STAGES).entries
        for offset in range(at.offset, len(rows)):
            if len(data) < at.length and rows[offset].is_promised:
                found.append(offset)
                data += rows[offset].value or b""
        if sha256(data).digest() != at.sha256:
            raise Broken("WHOLE", f"frame {serial} names rows at {at.offset} that are not there")
        return found

    def _require_undeleted(self) -> None:
        """Checks that everything that the last readable compaction needs is present."""
        frames = self.brokers.log(self.FRAMES).entries[self.read_to :]
        if any(entry.is_promised for entry in frames):
            return  # a compaction may follow a lost marker
        fold, logs = self.fold, self.brokers.logs
        starts = {partition: log.start for partition, log in logs.items()}
        if starts.get(self.FRAMES, 0) > fold.ledger_from:
            raise Broken("DELETED", f"frames up to {starts[self.FRAMES]}, and those from {fold.ledger_from} are needed")
        compacted = fold.compacted
        if starts.get(self.STATES, 0) > (compacted.states_from if compacted else 0):
            raise Broken("DELETED", f"states up to {starts[self.STATES]}")
        lowest = min(self.waiting.values(), default=None)
        if lowest is not None and starts.get(self.STAGES, 0) > lowest:
            raise Broken("DELETED", f"stages up to {starts[self.STAGES]}, and one waits at {lowest}")

    def require_named(self) -> None:
        """Checks the rows at the end, when no transaction is open."""
        rows = self.brokers.log(self.STAGES)
        told = {at for at, entry in enumerate(rows.entries) if entry.state == COMMITTED}
        if told - self.named:
            raise Broken("WHOLE", f"rows at {sorted(told - self.named)} are readable, and no frame names them")
        self.users.require_named()

    def hear(self, entry: bytes, refused: bool) -> None:
        """Records the result of an append."""
        if refused:
            self.refused.add(entry)
            if self._is_there(entry):
                raise Broken("REFUSED", f"{entry!r} is refused, and there")
        else:
            self.acknowledged.add(entry)
            if not self._is_there(entry):
                raise Broken("DURABLE", f"{entry!r} is acknowledged, and not there")

    def _is_there(self, entry: bytes) -> bool:
        """Returns whether an entry is in the ledger, including the part that is not decided yet."""
        behind = self.brokers.log(self.FRAMES).entries[self.read_to :]
        return entry in self.there or entry in b"".join(one.value or b"" for one in behind if one.is_promised)
