"""Implements the ledger on Kafka: an append is one transaction with its output ranges and its frame."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from functools import partial

from aiokafka.errors import KafkaError

from oncegate.clock import now_s
from oncegate.core.errors import LedgerDamaged, LedgerDown, LedgerFenced, LedgerFull, OncegateError, Rejected, TooLarge
from oncegate.ledgers.catalog import CatalogChange, Location
from oncegate.ledgers.frames import ENTRIES_BYTES_MAX, AnyChange
from oncegate.ledgers.kafka.namespaces import NamespaceTopic
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.reading import reader
from oncegate.ledgers.kafka.rows.user_topics import UserTopics
from oncegate.ledgers.kafka.shard.append_ranges import AppendRanges
from oncegate.ledgers.kafka.shard.blobs import OUTPUTS, STAGES, Blobs, end_of, location
from oncegate.ledgers.kafka.shard.direct import DirectTopic
from oncegate.ledgers.kafka.shard.opening import Opened
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.shard.readback import OutputReadback
from oncegate.ledgers.kafka.shard.replay import Fold, TopicReader
from oncegate.ledgers.kafka.shard.unwritten import unwritten
from oncegate.ledgers.kafka.shard.writer import FrameWriter
from oncegate.ledgers.kafka.topics import shorten
from oncegate.ledgers.kafka.transactions.ends import NotWritten, RecordTooLarge
from oncegate.ledgers.server.ledger import RemoteLedger
from oncegate.ledgers.server.replay import Pieces, replayed
from oncegate.ledgers.snapshotting import Places
from oncegate.ports import AppendRefused, Chunk, Mark, OutputChange, Replayed, TopicsElsewhere

# How long maintenance may fail while appends succeed. If appends fail too, they report the error.
BEHIND_S = 60.0


class KafkaLedger(RemoteLedger[Fold]):
    """Implements `ports.Ledger` and `ports.Outputs` on the topics of one namespace. Created by `KafkaLedgers.open`."""

    ENTRIES_BYTES_MAX = ENTRIES_BYTES_MAX

    def __init__(
        self, place: KafkaPlace, opened: Opened, listed: NamespaceTopic, topics: UserTopics, direct: DirectTopic
    ) -> None:
        super().__init__(opened.fold, opened.key, TopicsElsewhere(topics, direct))
        self._place = place
        self.topics = topics
        self.direct = direct
        self._list = listed
        self._writer = FrameWriter(place, opened)
        self._witnessed = opened.fold.end.serial
        self._proved = opened.ownership.generation
        self._outputs = OutputReadback(place)
        self._stages_to = self._stages_shortened_to = 0
        # Start of the current series of maintenance failures, and the last serial at that time.
        self._behind_since: tuple[float, int] | None = None

    @property
    def place(self) -> KafkaPlace:
        return self._place

    @property
    def where(self) -> str:
        return self._place.where

    @property
    def epoch(self) -> int:
        """Returns the generation of this opening, or of its producer's last restart."""
        return self._writer.ownership.generation

    async def _append(self, entries: list[bytes], outputs: list[OutputChange]) -> None:
        async with self._one:
            self.end.check()
            ranges = AppendRanges(outputs, self._place, self._catalog)
            if not entries and not ranges.sends and not any(map(self._catalog.changes_something, ranges.plan)):
                return
            self._require_stages(ranges)
            changes: list[CatalogChange] = []

            def changes_of(first_offsets: list[int]) -> list[AnyChange]:
                changes.extend(ranges.changes(first_offsets))
                sent = ranges.sent(first_offsets)
                self._fold.sent_to.add(Partition(one.topic, one.partition) for one in sent)
                return [*changes, *sent]

            sending = ranges.batches(self._outputs.stages, self.topics, self._fold.end.serial)
            try:
                async with aclosing(sending) as batches:
                    await self._dying(self._writer.write(batches, entries, changes_of), by_append=True)
            except LedgerFull as error:
                self._suspend(error)
                self._refuse_part(error, ranges)
                raise
            ranges.report()
            for at, data in ranges.staged(changes):
                self._place.stage_cache.put(self._place.name, at, data)
            self._given_up(self._changed(changes))

    def _require_stages(self, ranges: AppendRanges) -> None:
        """Raises AppendRefused for outputs that need the stages topic while it has no leader,
        so that other appends proceed.
        """
        stages = self._place.stages
        if ranges.first_staged is not None and self._writer.ownership.user_partitions.is_due([stages]):
            why = LedgerFull(f"topic {stages.topic} has no leader, or was not looked at since; nothing was written")
            raise AppendRefused(why, ranges.first_staged)

    def _given_up(self, locations: Sequence[Location]) -> None:
        """Evicts given-up locations from the cache, and raises the offset below which the stages topic may be
        truncated.
        """
        self._place.stage_cache.drop(self._place.name, locations)
        ends = [end_of(at) for at in locations if at.counter == STAGES]
        self._stages_to = max([self._stages_to, *ends])

    def _suspend(self, error: LedgerFull) -> None:
        """Suspends users' topics that refused a batch, so that other appends proceed."""
        if isinstance(error.__cause__, NotWritten):
            own = {partition.topic for partition in self._place.partitions}
            refused = {partition.topic for partition in error.__cause__.culprits} - own
            if isinstance(error.__cause__, RecordTooLarge):
                self.topics.forget(refused)
                return
            self.topics.suspend(refused, str(error.__cause__))

    def _refuse_part(self, error: LedgerFull, ranges: AppendRanges) -> None:
        """Raises AppendRefused if the rows, not the brokers, caused the failure."""
        match error.__cause__:
            case RecordTooLarge(culprits=culprits) as cause:
                refusal = TooLarge(str(cause))
                raise AppendRefused(refusal, ranges.first_sent_to(culprits)) from error
            case Rejected() as cause:
                raise AppendRefused(cause, ranges.last_sent) from error

    def _pieces(self) -> Pieces:
        return Pieces(self._write_piece)

    async def _write_piece(self, data: bytes) -> Location:
        async with self._one:
            self.end.check()
            (offset,) = await self._dying(self._writer.write_blob(Blobs(self._place.states, [data])))
            return location(offset, data)

    async def _replace(self, mark: Mark, places: tuple[Places, Places]) -> None:
        assert self._taking is not None
        fold, since = self._fold, self._taking.changes_since
        states_from = min((at.offset for several in places for at in several), default=0)
        compacted = self._compacted(mark, places, states_from, self._place.keys.wrap(self.key))
        offset = await self._dying(self._writer.write((), (), lambda _: [compacted, *since]))
        if offset is not None:
            fold.adopt(compacted, offset)

    async def _end_of(self, error: OncegateError) -> OncegateError:
        """Returns the error with which the open ledger fails:
        missing records are not damage if a newer owner deleted them.
        """
        if not isinstance(error, LedgerDamaged):
            return error
        try:
            followed = await self._writer.ownership.newer_owner()
        except (KafkaError, OSError) as unknown:
            down = LedgerDown(f"{error.detail}, unless another gateway owns it now: {unknown!r}; open it anew")
            down.__cause__ = unknown
            return down
        return LedgerFenced("another gateway owns this ledger now; nothing was written") if followed else error

    def _replayed(self, from_position: int) -> AsyncGenerator[Sequence[Replayed], None]:
        return replayed(TopicReader(self._place), self._fold, from_position)

    async def _require_not_followed(self, damage: LedgerDamaged) -> None:
        why = await self._end_of(damage)
        if isinstance(why, LedgerFenced):
            self.end_beside(why)
        if why is not damage:
            raise why

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        """Returns rows as `Outputs.fetch` does, verifying each range's SHA-256. Raises LedgerFenced, LedgerDown too."""
        self.end.check()
        try:
            return await self._outputs.rows(self._catalog, topic, partition, offset, max_rows, max_bytes)
        except LedgerDamaged as error:
            await self._require_not_followed(error)
            raise

    async def keep_up(self) -> None:
        """Writes the rollback check, deletes compacted records, and repairs users' partitions.

        Failures are retried at the next call.
        """
        # Before `_keeping` is acquired: `close` acquires it while holding `_one`.
        await self._renew()
        async with self._keeping:
            if self.end.ending is not None:
                return
            try:
                await self._witness()
                await self._prove()
                await self._shorten()
                await self._shorten_stages()
                await self._writer.ownership.user_partitions.heal(
                    self._place.deadlines.commit_ms / 1000, partial(unwritten, self._place, self._fold)
                )
                self._behind_since = None
            except (KafkaError, OSError, LedgerFull) as error:
                self._fall_behind(error)

    async def check_frames(self) -> None:
        """Raises LedgerDamaged if frames that the next opening needs are missing; LedgerFenced, KafkaError, OSError."""
        reached = self._writer.read_to
        async with reader(self._place.settings) as found:
            lowest, end = await found.bounds(self._place.frames)
        # Read after the bounds: our own deletions happen only after `ledger_from` has advanced.
        needed = self._fold.ledger_from
        if lowest > needed or end < reached:
            gone = self._writer.is_gone(
                f"has offsets {lowest} to {end}, and frames from {needed} to {reached} are needed"
            )
            await self._require_not_followed(gone)
            raise gone

    def _fall_behind(self, error: Exception) -> None:
        """Ends this ownership if maintenance has failed for `BEHIND_S` while appends succeeded.

        The next opening then reports the cause.
        """
        now, serial = now_s(), self._fold.end.serial
        if self._behind_since is None:
            self._behind_since = (now, serial)
        since, written = self._behind_since
        if now >= since + BEHIND_S and serial > written:
            why = f"the upkeep of {self._place.frames.topic} has failed for {BEHIND_S:.0f} s: {error!r}"
            self.end_beside(LedgerDown(why))

    async def _witness(self) -> None:
        end = self._fold.end
        if end.serial > self._witnessed:
            await self._list.witness(self._place.name, self.epoch, end)
            self._witnessed = end.serial

    async def _prove(self) -> None:
        """Records that a generation started after a failure owns the ledger,
        once that generation has written a frame.
        """
        is_due = self._writer.ownership.user_partitions.is_due(self._place.told_by_frames)
        if self._writer.proved > self._proved and not is_due:
            proved = self._writer.proved
            await self._writer.ownership.prove(proved)
            self._proved = proved

    async def _renew(self) -> None:
        """Restarts a worn producer if rows were sent to users' topics.

        This ends its open transaction, which would block readers of these topics.
        """
        if not (self._writer.is_worn and self._fold.sent_to):
            return
        async with self._one:
            if self.end.ending is None:
                with suppress(LedgerFull):
                    await self._dying(self._writer.renew())

    async def _shorten_stages(self) -> None:
        """Deletes staged rows soon after their batch is committed or dropped,
        since they can be the bulk of the data.
        """
        if self._stages_to <= self._stages_shortened_to:
            return
        stages_to, lowest = self._stages_to, self._catalog.lowest_offset(STAGES)
        offset = stages_to if lowest is None else min(stages_to, lowest)
        if offset > 0:
            await shorten(self._place.settings, {self._place.stages: offset})
        self._stages_shortened_to = stages_to

    async def _shorten(self) -> None:
        """Deletes compacted records, but only after this owner has committed a frame after their replacement."""
        compacted = self._fold.compacted
        if compacted is None or compacted.position <= self._shortened_to or self._replays:
            return
        before = {self._place.frames: self._fold.ledger_from, self._place.states: compacted.states_from}
        outputs_from = self._catalog.lowest_offset(OUTPUTS)
        if outputs_from is not None:
            before[self._place.outputs] = outputs_from
        await shorten(self._place.settings, {partition: offset for partition, offset in before.items() if offset})
        self._shortened_to = compacted.position

    async def _let_go(self, alive: bool) -> None:
        with suppress(KafkaError, OSError):
            if alive:
                await self._witness()
        await self._writer.close()
        await self._outputs.close()
        await self.topics.close()
        await self.direct.close()
        self._place.stage_cache.drop_all(self._place.name)
