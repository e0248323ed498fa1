"""A Spark driver as the gateway sees it: it begins batches, its tasks stage rows, it commits, it dies.

A driver's life is a generator. At a bare `yield` anything else may happen; a `yield` of a request returns its reply.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncegate.core.entries.kinds import Name
from oncegate.core.errors import OncegateError, Retryable, Stop
from oncegate.engine.requests import AbortRequest, CommitRequest, CommitResult, StageRequest, StageResult, Winner
from tests.model.batches.rows import Item, merged, pack, print_of, sha256

if TYPE_CHECKING:
    from tests.model.batches.world import World

ATTEMPTS = 4
NO_MESSAGE = bytes(16)


@dataclass(frozen=True)
class Request:
    """A request `ask` for the gateway's `verb`. Its `yield` returns the reply, or None if there is none."""

    verb: str
    ask: Any


@dataclass(frozen=True)
class Offsets:
    """An entry of the offset log: source rows `low` to `high`, and the digest of the file."""

    low: int
    high: int
    digest: bytes


Life = Generator[Request | None, Any, None]


class Died(Exception):
    """This driver has ended."""


class Driver:
    """A driver. `run` is None in batch jobs; `green` lists the batches that it reported as done."""

    def __init__(self, world: "World", name: str, run: str | None) -> None:
        self.world, self.name, self.run = world, name, run
        self.owner = f"job:{name}" if run is None else f"run:{run}"
        self.next_batch: int | None = None
        self.high = 0
        self.tokens: list[bytes] = []
        self.batch_name = Name("", "", "")
        self.finished = False

    def life(self) -> Life:
        world, knobs = self.world, self.world.knobs
        while (number := world.begin(self)) is not None:
            offsets = world.offsets[number]
            self.next_batch, self.high = number + 1, offsets.high
            digests = world.read_digests(number)
            salt = "" if knobs.deterministic else world.uid("salt")
            yield None
            for write in range(knobs.writes):
                self.batch_name, self.tokens = world.name_of(number, write), []
                winners = yield from self._stage_all(world.rows_of(offsets, write, salt))
                if knobs.digest_read == "in commit":
                    digests = world.read_digests(number)
                yield from self._commit(winners, digests)
            world.turned_green(self, number, offsets)
            yield None
            if knobs.kind == "batch":
                break
        self.finished = True

    def _stage_all(self, rows: list[Item]) -> Generator[Request | None, Any, tuple[Winner, ...]]:
        cut = self.world.rng.randint(0, len(rows))
        winners = []
        for part in (rows[:cut], rows[cut:]):
            winners.append((yield from self._task(part)))
        return tuple(winners)

    def _task(self, rows: list[Item]) -> Generator[Request | None, Any, Winner]:
        """Makes up to four attempts, each with its own token; repeats a chunk once if its reply was lost."""
        rng = self.world.rng
        for _ in range(ATTEMPTS):
            token = self.world.name16()
            cut = rng.randint(0, len(rows)) if rng.random() < 0.3 else len(rows)
            chunks = [chunk for chunk in (rows[:cut], rows[cut:]) if chunk]
            prints = yield from self._attempt(token, chunks)
            if prints is not None:
                self.tokens.append(token)
                return Winner(token, len(chunks), len(rows), merged(prints))
            if rng.random() < 0.5:
                self.world.post(Request("abort", AbortRequest(self.batch_name, (token,))))
        raise Died("a task failed four times")

    def _attempt(self, token: bytes, chunks: list[list[Item]]) -> Generator[Request | None, Any, list[bytes] | None]:
        prints = []
        for number, chunk in enumerate(chunks):
            rows = pack(chunk)
            ask = StageRequest(self.batch_name, self.owner, token, number, sha256(rows), rows, print_of(chunk))
            request = Request("stage", ask)
            reply = yield request
            if not isinstance(reply, StageResult):
                reply = yield request
            if not isinstance(reply, StageResult):
                return None
            prints.append(reply.fingerprint)
        return prints

    def _commit(
        self, winners: tuple[Winner, ...], digests: tuple[bytes | None, bytes | None]
    ) -> Generator[Request | None, Any, None]:
        """Commits with a nonce that stays the same until the answer is known."""
        world = self.world
        run = self.run if world.knobs.kind != "batch" else None
        ask = CommitRequest(self.batch_name, run, world.name16(), winners, *digests, world.knobs.first_wins)
        while True:
            reply = yield Request("commit", ask)
            if isinstance(reply, CommitResult):
                return
            if isinstance(reply, Stop):
                world.stopped_by(reply.code)
                raise Died(reply.code)
            if isinstance(reply, OncegateError) and not isinstance(reply, Retryable):
                raise AssertionError(reply)
            if getattr(reply, "code", "") == "MISSING_STAGE" or world.rng.random() < 0.3:
                raise Died("commit failed or unknown")
