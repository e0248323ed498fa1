"""Writes frames, one script each, and resolves writes whose answer was lost.

written        the frame is the last one of the ledger, and enough replicas have it
not written    refused before the script began, or lost and then found missing
in doubt       resolved at once: a new connection raises the fence, so that no late write succeeds, and reads the head
fenced         another gateway owns the ledger
"""

from collections.abc import Awaitable, Callable, Sequence

from oncegate.core.errors import LedgerDamaged, LedgerDown, LedgerFenced, LedgerFull
from oncegate.ledgers.frames import AnyChange, End, encode_frame
from oncegate.ledgers.redis.connection import Link, Lost, OtherServer, Refused, Unreachable
from oncegate.ledgers.redis.scripts import APPEND, DROP, PIECE, TRIM, Script
from oncegate.ledgers.redis.shard.head import (
    Head,
    RedisPlace,
    changed_by_others,
    gone,
    read_head,
    require_replicas,
    take,
    waiting,
)
from oncegate.ledgers.redis.shard.reading import Fold, first_serial, frame_at

TURNS_MAX = 5
# A connection closed while idle is noticed only at the next send; hence one retry.
TRIES = 2
_NOT_WRITTEN = "nothing was written"
Bytes = bytes | memoryview


class FrameWriter:
    """Writer of one ledger's frames, one call at a time. `holder`: 16 random bytes that identify this opening.

    `fold` includes each frame once it is written, except for the changes of the catalog, which the caller applies.
    """

    def __init__(self, place: RedisPlace, link: Link, holder: bytes) -> None:
        self._place = place
        self._link = link
        self._holder = holder
        self.fold = Fold(place.listed.ledger, place.frames)
        self._fence = 0
        # Number of the connection that raised the fence.
        self._agreed = 0

    async def own(self, read: Head, lead: Callable[[], Awaitable[None]]) -> Head:
        """Raises the fence, which supersedes the current owner; returns the new head.

        `lead`: raises if another gateway must own the ledger. It is called between reading the fence and raising it,
        so that a gateway that became the leader and raised the fence in between is not superseded.

        Raises as `lead` and `read_head`; LedgerFull: other gateways keep raising the fence.
        """
        for _ in range(TURNS_MAX):
            await lead()
            taken = await take(self._link, self._place, read, self._holder)
            if taken is not None:
                return self._took(taken)
            read = await read_head(self._link, self._place)
        raise changed_by_others(self._place)

    def _took(self, head: Head) -> Head:
        self._fence, self._agreed = head.fence, self._link.connections
        return head

    async def write(
        self,
        entries: Sequence[bytes],
        changes: Sequence[AnyChange],
        rows: Sequence[Bytes] = (),
        gone_rows: Sequence[str] = (),
    ) -> None:
        """Appends a frame and its `rows`, and deletes the rows with the ids `gone_rows`.

        Raises:
            LedgerFull: nothing was written; retry.
            LedgerFenced: nothing was written.
            LedgerDown: effect unknown.
            LedgerDamaged: the server lost acknowledged frames.

        After the last three this writer must be discarded.
        """
        before = self.fold.end
        data, end = encode_frame(self._place.listed.ledger, before, entries, changes)
        numbers = before.serial, before.chain, end.serial, end.position, end.chain
        arguments = (*numbers, data, len(rows), *rows, *gone_rows)
        for _ in range(TRIES):
            await self._ready()
            if await self._written(end, arguments):
                self.fold.advance(end.serial, before, end)
                return
        raise LedgerFull(f"{self._place.address.shown} lost it twice on the way; {_NOT_WRITTEN}")

    async def _written(self, end: End, arguments: Sequence[Bytes | str | int]) -> bool:
        """Sends the frame; returns whether it was written, after resolving a lost answer. Raises as `write`."""
        place = self._place
        keys = [place.head, place.frames, place.rows]
        try:
            answer, *waited = await self._link.run_then(APPEND, keys, (self._fence, *arguments), *waiting(place))
            if answer == b"OK":
                require_replicas(place, waited)
                return True
        except Unreachable as error:
            raise LedgerFull(f"{error}; {_NOT_WRITTEN}") from error
        except Refused as error:
            raise self._refusal(error) from error
        except Lost as error:
            return await self._decide(end, error)
        raise await self._not_taken(answer)

    def _refusal(self, error: Refused) -> LedgerFull | LedgerDown:
        where = self._place.address.shown
        if error.is_definite:
            return LedgerFull(f"{where} did not take it ({error}); {_NOT_WRITTEN}")
        return LedgerDown(f"{where} failed at it ({error}); whether it was written is unknown until it is opened anew")

    async def _not_taken(self, answer: bytes) -> LedgerFenced | LedgerDamaged | LedgerDown:
        """Returns the error for a script that wrote nothing:
        there is a newer owner, or the server lost acknowledged frames.
        """
        if answer == b"GONE":
            return gone(self._place)
        try:
            return self._judged(await read_head(self._link, self._place)) or LedgerDown(
                f"{self._place.head} has changed below its owner; {_NOT_WRITTEN}, open it anew"
            )
        except (Refused, Unreachable, Lost) as error:
            return LedgerDown(f"{self._place.head} cannot be read ({error}); {_NOT_WRITTEN}, open it anew")

    def _judged(self, head: Head) -> LedgerFenced | LedgerDamaged | None:
        """Returns the error for a head that this owner did not write, or None if the head is as this owner left it."""
        if head.fence >= self._fence and head.holder != self._holder:
            return _followed()
        if head.holder != self._holder or head.end != self.fold.end:
            return self._set_back(head)
        return None

    def _set_back(self, head: Head) -> LedgerDamaged:
        return LedgerDamaged(
            f"key {self._place.head} ends at frame {head.end.serial} (position {head.end.position}), and frame "
            f"{self.fold.end.serial} (position {self.fold.end.position}) was acknowledged: the server was set back, or "
            "another one took its place without it; nothing was written, put back what it held"
        )

    async def _ready(self) -> None:
        """Reconnects if the connection was lost, and raises the fence over the new one. Raises as `write`."""
        try:
            await self._link.connect()
            if self._agreed == self._link.connections:
                return
            head = await self._renewed()
        except OtherServer as error:
            raise await self._of_other_server(error) from error
        except (Refused, Unreachable, Lost) as error:
            raise LedgerFull(f"{error}; {_NOT_WRITTEN}") from error
        if head.end != self.fold.end:
            raise self._set_back(head)

    async def _renewed(self) -> Head:
        """Raises the fence of this owner; returns the new head.

        Raises LedgerFenced: there is a newer owner; LedgerDamaged, LedgerFull; as `read_head`.
        """
        for _ in range(TURNS_MAX):
            read = await read_head(self._link, self._place)
            if read.holder != self._holder:
                raise self._judged(read) or self._set_back(read)
            taken = await take(self._link, self._place, read, self._holder)
            if taken is not None:
                return self._took(taken)
        raise changed_by_others(self._place)

    async def _of_other_server(self, error: OtherServer) -> LedgerFenced | LedgerDown:
        """Returns the error for a restarted server: LedgerFenced if it has a newer owner, otherwise LedgerDown."""
        self._link.run_id = None
        try:
            head = await read_head(self._link, self._place)
        except (LedgerDamaged, Refused, Unreachable, Lost):
            pass
        else:
            if head.fence >= self._fence and head.holder != self._holder:
                return _followed()
        return LedgerDown(f"{error}; it is read anew")

    async def _decide(self, end: End, doubt: Lost) -> bool:
        """Returns whether the frame in doubt, which ends at `end`, was written; raises the fence against late writes.

        Raises LedgerFenced: not written; LedgerDown: still unknown; LedgerDamaged.
        """
        await self._link.drop()
        try:
            head = await self._renewed()
        except LedgerFenced as fenced:
            return await self._followed(end, doubt, fenced)
        except OtherServer as error:
            found = await self._of_other_server(error)
            if isinstance(found, LedgerFenced):
                return await self._followed(end, doubt, found)
            raise LedgerDown(f"unknown whether it was written: {doubt}; {found}") from error
        except (LedgerFull, Refused, Unreachable, Lost) as error:
            raise LedgerDown(f"unknown whether it was written: {doubt}, and then {error}; open it anew") from error
        if head.end not in (end, self.fold.end):
            raise self._set_back(head)
        return head.end == end

    async def _followed(self, end: End, doubt: Lost, fenced: LedgerFenced) -> bool:
        """Returns True if the newer owner's ledger contains the frame in doubt; raises `fenced` if not.

        Raises LedgerDown: still unknown.
        """
        try:
            first = await first_serial(self._link, self._place)
            found = await frame_at(self._link, self._place, end.serial)
        except (Refused, Unreachable, Lost) as error:
            raise LedgerDown(f"unknown whether it was written: {doubt}, and then {error}; open it anew") from error
        if first is None or first > end.serial:
            raise LedgerDown(f"unknown whether it was written: {doubt}, and it was replaced since; open it anew")
        if found is None or found.end != end:
            raise fenced
        return True

    async def write_piece(self, data: bytes) -> str:
        """Writes a snapshot piece that no frame names yet; returns its record id.

        Raises LedgerFull: it may be written, but nothing refers to it; otherwise as `write`.
        """
        await self._ready()
        try:
            answer = await self._link.run(PIECE, [self._place.head, self._place.states], self._fence, data)
        except (Refused, Unreachable, Lost) as error:
            raise LedgerFull(f"part of a snapshot was not written ({error}); it is made anew") from error
        if answer in (b"GONE", b"FENCED"):
            raise await self._not_taken(answer)
        return bytes(answer).decode()

    async def trim(self, stream: str, first_id: str) -> None:
        """Deletes the records of a stream before `first_id`. Raises LedgerFull: retry; otherwise as `write`."""
        await self._delete(TRIM, stream, first_id)

    async def drop(self, ids: Sequence[str]) -> None:
        """Deletes the rows with these ids. Raises as `trim`."""
        await self._delete(DROP, self._place.rows, *ids)

    async def _delete(self, script: Script, stream: str, *arguments: str) -> None:
        await self._ready()
        try:
            answer = await self._link.run(script, [self._place.head, stream], self._fence, *arguments)
        except (Refused, Unreachable, Lost) as error:
            raise LedgerFull(f"{stream} is not shortened now ({error})") from error
        if answer != b"OK":
            raise await self._not_taken(answer)

    async def require_unfollowed(self, link: Link) -> None:
        """Raises LedgerFenced if the ledger has a newer owner; may raise LedgerDamaged, Refused, Unreachable, Lost."""
        head = await read_head(link, self._place)
        if head.fence >= self._fence and head.holder != self._holder:
            raise _followed()

    async def look(self, link: Link) -> None:
        """Checks, over a separate connection, that the head is this owner's and was not rolled back;
        appends may be in progress.

        Raises LedgerFenced, LedgerDamaged; Refused, Unreachable, Lost: the head was not read.
        """
        end = self.fold.end
        head = await read_head(link, self._place)
        if head.holder != self._holder:
            raise self._judged(head) or self._set_back(head)
        if head.end.serial < end.serial:
            raise self._set_back(head)

    async def close(self) -> None:
        await self._link.close()


def _followed() -> LedgerFenced:
    return LedgerFenced(f"another gateway owns this ledger now; {_NOT_WRITTEN}")
