"""Writes frames in Kafka transactions, and resolves transactions whose outcome is unknown.

committed      the frame is the last one of the ledger
not written    certainly refused; the next transaction uses the next generation of the transactional id
in doubt       resolved at once: the next generation ends the transaction, then the committed frames are read
fenced         another gateway owns the ledger
"""

from collections.abc import Callable, Sequence

from aiokafka.errors import KafkaError

from oncegate.core.errors import LedgerDamaged, LedgerDown, LedgerFenced, LedgerFull, Rejected
from oncegate.ledgers.frames import AnyChange, End, encode_frame
from oncegate.ledgers.kafka.reading import Trimmed
from oncegate.ledgers.kafka.shard.blobs import Blobs
from oncegate.ledgers.kafka.shard.opening import Opened, read_frames
from oncegate.ledgers.kafka.shard.ownership import Ownership
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.shard.replay import Fold
from oncegate.ledgers.kafka.transactions.ends import InDoubt, NotWritten
from oncegate.ledgers.kafka.transactions.guard import Guard
from oncegate.ledgers.kafka.transactions.sending import Batch, Batches
from oncegate.ports.tracing import child

ChangesOf = Callable[[list[int]], Sequence[AnyChange]]
_RETRY = "nothing was written"
_SPAN = {"messaging.system": "kafka", "messaging.operation.type": "send"}


class FrameWriter:
    """Writer of one ledger's frames, one call at a time. `fold` includes each frame once it is written."""

    def __init__(self, place: KafkaPlace, opened: Opened) -> None:
        self._place = place
        self.fold: Fold = opened.fold
        self.ownership: Ownership = opened.ownership
        self._guard: Guard = opened.guard
        # End offset of the frames read or written so far.
        self.read_to = opened.read_to
        # The last generation that wrote a frame; all earlier ones are fenced.
        self.proved = opened.ownership.generation

    async def write(self, batches: Batches, entries: Sequence[bytes], changes_of: ChangesOf) -> int | None:
        """Commits `batches` and then a frame of `entries` and changes. `changes_of`: gets each batch's first offset.

        Returns the offset of the frame's first record. None: the frame was read back, and `fold` has applied it
        except for the changes of the catalog, which the caller applies.

        Raises:
            LedgerFull: nothing was written; retry.
            LedgerFenced: nothing was written.
            LedgerDown: effect unknown.
            LedgerDamaged: earlier frames are missing.

        After the last three this writer must be discarded.
        """
        before = self.fold.end
        written: list[tuple[Blobs, End, int]] = []

        def frame(first_offsets: list[int]) -> Sequence[Batch]:
            data, end = encode_frame(self._place.listed.ledger, before, entries, changes_of(first_offsets))
            written.append((Blobs(self._place.frames, [data]), end, len(first_offsets)))
            return written[0][0].batches

        guard = await self._ready()
        try:
            with child("kafka transaction", _SPAN):
                first_offsets = await guard.commit(batches, frame)
        except (NotWritten, Rejected, LedgerFull) as error:
            # Rejected and LedgerFull come from rows that no longer fit their topic, not from the brokers.
            raise await self._refusal(error) from error
        except InDoubt as error:
            await self._decide(written[0][1], error)
            return None
        blobs, end, before_it = written[0]
        try:
            (offset,) = blobs.offsets(first_offsets[before_it:])
        except NotWritten:
            # The frame is committed. Its batch was sent twice, and the broker did not return the first copy's offset.
            await self._read_on()
            return None
        self._require_grown(offset)
        self.proved = self.ownership.generation
        self.fold.advance(offset, before, end)
        self.read_to = offset + blobs.records
        return offset

    async def write_blob(self, blobs: Blobs) -> list[int]:
        """Commits blobs that no frame names yet; returns the offset of each.

        Raises LedgerFenced; LedgerFull: they may be written, but nothing refers to them.
        """
        guard = await self._ready()
        try:
            return blobs.offsets(await guard.commit(blobs.batches))
        except NotWritten as error:
            raise await self._refusal(error) from error
        except InDoubt as error:
            raise LedgerFull(f"unknown whether part of a snapshot was written: {error}; it is made anew") from error

    @property
    def is_worn(self) -> bool:
        return self._guard.is_worn

    async def renew(self) -> None:
        """Replaces a worn producer now. Raises LedgerFenced; LedgerFull: the brokers cannot be reached."""
        await self._ready()

    async def close(self) -> None:
        """Closes the producer; the next generation ends an open transaction."""
        await self._guard.close()

    async def _ready(self) -> Guard:
        """Returns the producer; first replaces a worn one with a producer of the next generation."""
        if self._guard.is_worn:
            await self._guard.close()
            try:
                await self._begin()
            except (KafkaError, OSError) as error:
                raise LedgerFull(f"the brokers cannot be reached now ({error!r}); {_RETRY}") from error
        return self._guard

    async def _begin(self) -> None:
        """Starts the next generation, and queues user partitions of earlier ones for repair by the maintenance task."""
        self._guard = await self.ownership.begin()
        self.ownership.user_partitions.look_at(self.fold.sent_to.take())

    async def _refusal(self, error: Exception) -> LedgerFull | LedgerFenced:
        """Returns the error for an append that was not written: LedgerFenced if there is a newer owner."""
        try:
            if await self.ownership.newer_owner():
                return LedgerFenced(f"another gateway owns this ledger now; {_RETRY}")
        except (KafkaError, OSError):
            pass
        return LedgerFull(f"the brokers did not take it ({error}); {_RETRY}")

    async def _decide(self, end: End, doubt: InDoubt) -> None:
        """Resolves a transaction in doubt: returns normally if the frame that ends at `end` was written,
        otherwise raises.

        Raises LedgerFull, LedgerFenced: it was not written; LedgerDown: still unknown; LedgerDamaged.
        """
        fenced: LedgerFenced | None = None
        try:
            try:
                await self._begin()
            except LedgerFenced as error:
                fenced = error  # the newer owner ends that transaction
            await self._read_on()
        except (KafkaError, OSError, LedgerFull) as error:
            raise LedgerDown(f"unknown whether it was written: {doubt}, and then {error!r}; open it anew") from error
        if not self.fold.holds(end):
            raise fenced or LedgerFull(f"the brokers did not take it ({doubt}); {_RETRY}")

    async def _read_on(self) -> None:
        """Applies the frames committed since `read_to` to `fold`. Raises LedgerDown, LedgerDamaged."""
        try:
            try:
                end = await read_frames(self._place, self.fold, self.read_to)
            except LedgerDamaged as error:
                # A newer owner may be writing: the end then cuts a frame of its open transaction.
                if await self.ownership.newer_owner():
                    raise LedgerDown(f"another gateway owns {self._place.frames.topic} now; open it anew") from error
                raise
        except (Trimmed, KafkaError, OSError) as error:
            raise LedgerDown(f"{self._place.frames.topic} cannot be read on: {error!r}; open it anew") from error
        self._require_grown(end)
        self.read_to = end
        # The changes are either the caller's, which applies them itself, or another owner's, which ends this ledger.
        self.fold.pending = []

    def _require_grown(self, offset: int) -> None:
        """Raises LedgerDamaged if the topic continues below its last known offset: offsets never decrease."""
        if offset < self.read_to:
            raise self.is_gone(f"goes on at offset {offset} and had reached {self.read_to}: it was made anew or cut")

    def is_gone(self, what: str) -> LedgerDamaged:
        """Returns the error for frames missing from an open ledger. Effect of the current write: unknown."""
        return LedgerDamaged(
            f"topic {self._place.frames.topic} {what}; nothing more is answered, put the topics of this namespace back "
            "from a copy"
        )
