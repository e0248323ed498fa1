"""The gateway of the walk: the shipped use cases of named batches over the shipped index and table.

This file contains no rule. The ledger is a list of bytes, and the walk decides when an append returns: its entries
become durable (`flush`), are refused (`refuse`) or are lost with the process (`crash`). Calls are driven by hand,
without a loop.
"""

import types
from collections import Counter
from collections.abc import Callable
from typing import Any

from oncegate.core.entries.codec import decode, encode
from oncegate.core.entries.kinds import Entry, NamespaceSet, TopicCreated
from oncegate.core.errors import LedgerFull
from oncegate.engine.commit.journal import Journal
from oncegate.engine.commit.places import Places
from oncegate.engine.deadline import Deadline
from oncegate.engine.limits import Limits
from oncegate.engine.usecases.batches import Batches
from oncegate.engine.usecases.stage_quota import StageQuota
from oncegate.engine.usecases.topics import Topics
from oncegate.index.batches import BatchIndex
from oncegate.index.lanes import LaneIndex
from oncegate.index.settings import IdSetIndex
from oncegate.index.topics import TopicIndex
from oncegate.index.writers import RunOrder
from oncegate.ports import DropRanges, OutputChange, PublishRanges, WriteRange
from oncegate.testing import FakeClock
from tests.model.batches.rows import Item, unpack
from tests.model.kit.manual_commit import Call, ManualGroupCommit
from tests.model.kit.replies import Broken

LIMITS = Limits()
PARTITIONS = 2


class BatchShard:
    """The part of `ShardIndex` without free ids."""

    settings = NamespaceSet(0, 1, 0)

    def __init__(self) -> None:
        self.claims = types.SimpleNamespace(wall_ms=0, runs=RunOrder())
        self.batches = BatchIndex()
        self.topics = TopicIndex()
        self.lanes = LaneIndex()
        self.id_sets = IdSetIndex()

    def apply(self, position: int, entry: Entry, now_ms: int) -> tuple[Callable[[], None], Callable[[], None]]:
        undos = [self.topics.apply(position, entry), self.batches.apply(position, entry)]
        return (lambda: [undo() for undo in reversed(undos) if undo is not None] and None), (lambda: None)

    def state(self) -> tuple[object, ...]:
        """Returns everything that a replay must reproduce."""
        batches = self.batches
        numbers = (batches.stage_bytes, batches.suppressed_rows)
        return vars(batches.committed), batches.stages, numbers, dict(self.topics)


class Gateway:
    """Stages, commits and aborts as shipped, over one topic of two partitions.

    `copies` counts the visible rows by source row and write.
    """

    def __init__(self, clock: FakeClock, random: Callable[[int], bytes], observer: Any) -> None:
        self._clock, self._random, self._observer = clock, random, observer
        self.entries: list[bytes] = [encode(TopicCreated("topic", PARTITIONS, b"", 0, 0, 0))]
        self.replayed = BatchShard()
        self.replayed.apply(1, decode(self.entries[0]), 0)
        self.copies: Counter[tuple[int, int]] = Counter()
        self._high_offsets: Counter[int] = Counter()
        self._waiting: dict[bytes, tuple[Item, ...]] = {}
        self._calls: list[Call] = []
        self._start()

    def _start(self) -> None:
        self.index: Any = BatchShard()
        for position, body in enumerate(self.entries, 1):
            self.index.apply(position, decode(body), 0)
        group_commit: Any = ManualGroupCommit(len(self.entries))
        self.group_commit = group_commit
        journal = Journal("model", self.index, group_commit, self._clock, self._observer, LIMITS, self._random)
        self._stages = StageQuota(journal, lambda: (1, 1))
        ledger: Any = None
        self._staging = Batches(journal, Topics(journal, ledger), self._stages, Places(ledger, ledger))
        self._compare("a start")

    def call(self, verb: str, ask: object) -> Call:
        """Begins a `stage`, `commit` or `abort`."""
        call = Call(getattr(self._staging, verb)(ask, Deadline(self._clock)))
        if not call.ended:
            self._calls.append(call)
        return call

    def sweep(self) -> None:
        """Drops stages past their time to live, as a timer does."""
        self._stages.sweep()

    def flush(self) -> None:
        """Lets the append return: everything submitted so far becomes durable and is answered."""
        pending, self.group_commit.pending = self.group_commit.pending, []
        for change in pending:
            for body in change.entries:
                self.entries.append(body)
                self.replayed.apply(len(self.entries), decode(body), 0)
            for output in change.outputs:
                self._write(output)
        self.group_commit.durable_position = len(self.entries)
        self._compare("a flush")
        if self._waiting.keys() != self._staged_ranges():
            raise Broken("LEAK", "what waits on disk is not what is staged")
        for call in self._waiters():
            if call.rests_on <= len(self.entries):
                call.go_on()
            if not call.ended:
                self._calls.append(call)

    def refuse(self) -> None:
        """Lets the ledger refuse the append with nothing written; the callers get the error."""
        self.group_commit.take_back()
        self._compare("an undo")
        for call in self._waiters():
            call.fail(LedgerFull("no room"))

    def crash(self) -> None:
        """Kills the process and restarts it on the durable entries. Waiting callers get no answer."""
        for call in self._waiters():
            call.die()
        self._start()

    def _staged_ranges(self) -> set[bytes]:
        return {part.range_id for _, stage in self.index.batches.all_stages() for part in stage.parts}

    def _waiters(self) -> list[Call]:
        calls, self._calls = self._calls, []
        return calls

    def _write(self, output: OutputChange) -> None:
        match output:
            case WriteRange():
                self._waiting[output.range_id] = unpack(output.data)
            case PublishRanges():
                self._publish(output)
            case DropRanges():
                for range_id in output.range_ids:
                    del self._waiting[range_id]

    def _publish(self, output: PublishRanges) -> None:
        if output.first_offset != self._high_offsets[output.partition]:
            raise Broken("OFFSETS", f"partition {output.partition} has a hole, or an offset twice")
        for range_id in output.range_ids:
            items = self._waiting.pop(range_id)
            self._high_offsets[output.partition] += len(items)
            self.copies.update((number, write) for number, write, _ in items)

    def _compare(self, when: str) -> None:
        if self.index.state() != self.replayed.state():
            raise Broken("REPLAY", f"after {when} the index is not what its ledger adds up to")
