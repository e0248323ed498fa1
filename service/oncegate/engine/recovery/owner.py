"""Owns one ledger for the lifetime of the gateway: fences, replays, serves, and reopens it after a failure.

`core.lifecycle` has the tables of its states: how callers are answered after each event, and whether the ledger is
reopened.
"""

import asyncio
from contextlib import AsyncExitStack

from oncegate.core.errors import (
    LedgerDown,
    LedgerFenced,
    OncegateError,
    Recovering,
    Retryable,
    Stop,
)
from oncegate.core.lifecycle import AFTER, ENDS, ROWS, SERVES, WHILE, Callers, Condition, Ending, Event, Reopen, State
from oncegate.engine.counts.counts import Counts
from oncegate.engine.failures import error_fields, reason_of, without_frames
from oncegate.engine.namespace import Namespace
from oncegate.engine.policies.unchecked import Unchecked
from oncegate.engine.recovery.shard_opening import opened_shard
from oncegate.engine.recovery.shortage import is_shortage
from oncegate.engine.recovery.unchecked_claims import UncheckedClaims
from oncegate.engine.recovery.world import World
from oncegate.engine.shard import Shard
from oncegate.ports import Followed, Mark

# Delay before a failed ledger is reopened, doubled up to a minute.
REOPEN_MS = 250
REOPEN_MS_MAX = 60_000
# Shorter maximum for standbys, which are useless during the pause.
FOLLOW_MS_MAX = 2_000
# Delay before a namespace that is DOWN is reopened: a setting, a right or a folder may be fixed by then.
RETRY_MS = 60_000
# Pause relative to the length of the attempt: damage at the end of a long ledger costs a tenth of the disk's time.
RETRY_PAUSES = 9
RETRIED = "and opened again each minute"
# Interval of maintenance.
MAINTENANCE_MS = 5_000
# Interval of checks for eviction: at two million ids a second, a million arrive in between.
EVICTION_MS = 500
# A longer recovery is logged, once per interval. Reading a ledger of a GiB takes a few seconds.
RECOVERING_MS = 60_000
# The names of `Owner.state`.
STATES = ("SERVING", "FULL", "STANDBY", "RECOVERING", "DOWN")


class Owner:
    """The owner of one namespace's ledger, which keeps its shard serving.

    An opening that fails for a shortage of descriptors, memory, threads or room is soon retried, even the first one. An
    error that a person must fix is retried every `RETRY_MS`; each attempt makes all checks of a start and leaves damage
    untouched.
    """

    def __init__(self, world: World, namespace: str) -> None:
        self._world = world
        self.namespace = namespace
        # The state without conditions, which `life` adds; the event that ended the last opening; the error for callers
        # in states that return it.
        self._state = State.OPENING
        self._ended_by: Event | None = None
        self._cause: Exception | None = None
        self._namespace: Namespace | None = None
        # The followed ledger while standing by; None once it serves.
        self._followed: Followed | None = None
        self._told_away = False
        # The last durable ledger position of the previous shard.
        self._seen: Mark | None = None
        # The reason of the last loss, and the time since when nothing has served.
        self._reason = self._told_reason = ""
        self._recovering_ms = self._watched_ms = world.clock.monotonic_ms()
        self._due_ms = self._looked_at = 0
        # Counters over all ownerships; the number of ownerships, and the duration of the last recovery.
        self.counts = Counts(None if world.duplicates is None else world.duplicates.of(namespace))
        self.opened, self._recovery_ms = 0, 0
        self._unchecked_claims = UncheckedClaims(namespace, world.clock, world.observer, self._is_not_down)
        # Completes when the current opening ends.
        self._opening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._own(), name=f"owner of {namespace}")

    @property
    def serving(self) -> Namespace | None:
        """Returns the namespace while it accepts callers; None as soon as its ledger has ended."""
        namespace = self._namespace
        if namespace is None or namespace.home.group_commit.ending() is not None:
            return None
        return namespace if self._state in SERVES else None

    @property
    def life(self) -> State:
        """Returns the namespace's state under the current conditions."""
        if self._namespace is not None:
            self._namespace.home.group_commit.ending()  # the ledger may have ended meanwhile
        state = self._state
        for condition in Condition:
            if (cell := WHILE.get((state, condition))) is not None and self._holds(condition):
                state = cell.effect
        return state

    def _holds(self, condition: Condition) -> bool:
        match condition:
            case Condition.FOLLOWED:
                return bool(self.standing)
            case Condition.DRAINED:
                return self._world.draining is not None
            case Condition.NO_ROOM:
                return self._namespace is not None and self._namespace.home.group_commit.room.full
            case Condition.UNREACHABLE:
                return self._away() is not None

    @property
    def state(self) -> str:
        """Returns SERVING, FULL (serving, but the disk is full), STANDBY, RECOVERING or DOWN."""
        return ROWS[self.life].effect.shown

    @property
    def cause(self) -> Exception | None:
        """Returns the error for callers if the current state's table row returns the cause; otherwise None."""
        if ROWS[self.life].effect.callers is not Callers.CAUSE:
            return None
        return self._cause or LedgerDown("the gateway is shutting down; nothing was written")

    @property
    def is_deleted(self) -> bool:
        """Returns whether the namespace was deleted while the gateway runs."""
        return self._state is State.STOPPED and self._cause is not None

    @property
    def recovery_ms(self) -> int:
        """Returns the duration of the current recovery or standby or, while the shard serves, of the last one."""
        if self.serving is not None or self.cause is not None:
            return self._recovery_ms
        return self._world.clock.monotonic_ms() - self._recovering_ms

    @property
    def standing(self) -> str:
        """Describes the owner that this gateway stands by for, and the read position; empty if it is not a standby."""
        return "" if self._followed is None else self._followed.standing()

    @property
    def reason(self) -> str:
        """Returns in one line why the namespace is recovering or down. Empty otherwise, and at the first opening."""
        if self.state not in ("RECOVERING", "DOWN"):
            return ""
        error = self.cause or (None if self.serving is None else self._away())
        return self._told_reason if error is None else reason_of(error)

    @property
    def unchecked(self) -> Unchecked | None:
        """Returns the handler of claims while the ledger is down; None if claims are refused."""
        return self._unchecked_claims.unchecked

    async def started(self) -> None:
        """Waits until the shard serves. Raises the reason if the opening fails; Recovering if it is soon retried."""
        if (cause := self.cause) is not None:
            raise cause.with_traceback(None)
        if self.serving is None:
            await asyncio.shield(self._opening)

    def stop(self, why: OncegateError) -> None:
        """Stops accepting work immediately, because the namespace is deleted; `close` must follow."""
        self._take(Event.STOPPED)
        self._cause = why
        if self._namespace is not None:
            self._namespace.home.group_commit.close(why)

    async def close(self) -> None:
        """Writes all accepted changes and closes the ledger."""
        self._take(Event.STOPPED)
        if self._namespace is not None:
            self._namespace.home.group_commit.close()
        else:
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._unchecked_claims.close()
        self._end_opening(self.cause)

    async def _own(self) -> None:
        pause_ms = REOPEN_MS
        while self._state is not State.STOPPED:
            self._ended_by, ownerships = None, self.opened
            if self._opening.done():
                self._opening = asyncio.get_running_loop().create_future()
            begun_ms = self._world.clock.monotonic_ms()
            try:
                await self._serve()
            except Exception as error:
                if self._ended_by is None:
                    self._take(self._failure(error), error)
                has_served = self.opened > ownerships
                if self._reopens is Reopen.LATER:
                    self._recovery_ms = self._world.clock.monotonic_ms() - self._recovering_ms
                    self._end_opening(self._cause or error)
                    took_ms = self._world.clock.monotonic_ms() - begun_ms
                    await self._pause(RETRY_MS if has_served else max(RETRY_MS, RETRY_PAUSES * took_ms))
                    continue
                again = f"namespace {self.namespace} cannot be opened for now ({error}); it is tried again by itself"
                self._end_opening(Recovering(f"{again}; nothing was written"))
            pause_ms = REOPEN_MS if self.opened > ownerships else pause_ms
            await self._pause(pause_ms)
            pause_ms = min(2 * pause_ms, FOLLOW_MS_MAX if self._world.standbys else REOPEN_MS_MAX)

    async def _pause(self, pause_ms: int) -> None:
        if self._state is not State.STOPPED:
            await self._world.clock.sleep_ms(pause_ms)

    @property
    def _reopens(self) -> Reopen:
        return Reopen.NO if self._ended_by is None else ENDS[self._ended_by].effect.reopen

    def _failure(self, error: Exception) -> Event:
        """Maps the error of a failed opening to an event; at the first opening only a few kinds of errors are retried
        soon."""
        if is_shortage(error):
            return Event.SHORT
        if isinstance(error, LedgerFenced):
            return Event.FENCED
        passes = self.opened or (self._world.standbys is not None and isinstance(error, Retryable))
        if isinstance(error, Stop) or not passes:
            return Event.BROKEN
        return Event.UNREACHED if isinstance(error, LedgerDown) else Event.SHORT

    def _take(self, event: Event, error: Exception | None = None) -> None:
        """Moves the namespace to its next state. `error`: the end of the ownership or of its opening; logged."""
        self._state = AFTER[self._state, event].effect
        if self._state not in (State.DOWN, State.SUPERSEDED, State.STOPPED):
            self._cause = None
        if error is None:
            return
        self._tell(error)
        if isinstance(error, LedgerFenced):
            self._unchecked_claims.stop()
        if ENDS[event].effect.is_down:
            self._unchecked_claims.begin()
        if self._state is State.SUPERSEDED and self._world.standbys is not None:
            event = Event.STANDS_BY
            self._state = AFTER[self._state, event].effect
        self._ended_by = event
        # Damage stays the cause until the shard serves, even if later attempts fail for other reasons. The traceback is
        # dropped: its frames would keep an index alive while the namespace is DOWN.
        stays = self._state is State.STOPPED or (isinstance(self._cause, Stop) and not isinstance(error, Stop))
        if self._reopens is Reopen.LATER and not stays:
            self._cause = without_frames(error)

    def _tell(self, error: Exception) -> None:
        # As text: the traceback would keep the index of the lost shard alive beside the next one.
        self._reason = str(error) or repr(error)
        self._told_reason = reason_of(error)
        name = "ledger_lost" if isinstance(error, OncegateError | OSError) or is_shortage(error) else "owner_failed"
        self._world.observer.event(name, namespace=self.namespace, **error_fields(error))

    def _lost(self, ending: Ending) -> None:
        """Records at once that the namespace no longer serves, because closing the other parts may hang."""
        if self._namespace is None:
            return  # stopped and closed: `_serve` raises the error
        self._recovering_ms = self._watched_ms = self._world.clock.monotonic_ms()
        if ENDS[ending.event].effect.reopen is Reopen.SOON:
            self._unchecked_claims.prepare(self._namespace)
        self._take(*ending)

    def _is_not_down(self) -> bool:
        """Returns whether passing claims unchecked is forbidden: the shard serves, or this gateway must not answer for
        the namespace."""
        return ROWS[self.life].effect.callers is not Callers.AGAIN

    def _end_opening(self, error: Exception | None) -> None:
        if not self._opening.done():
            if error is None:
                self._opening.set_result(None)
            else:
                self._opening.set_exception(error)
                self._opening.exception()  # marks it as retrieved if no caller waits

    async def _serve(self) -> None:
        """Runs one ownership of the ledger, from fencing to the end of its group commit."""
        async with AsyncExitStack() as stack:
            shard = await self._open(stack)
            # A namespace of several shards will begin once each of them serves.
            self._namespace = namespace = Namespace(self.namespace, (shard,))
            if policies := namespace.settings.policies:
                self._world.observer.event("policies", namespace=self.namespace, **policies)
            self._take(Event.OPENED)
            self.opened, self._recovery_ms = self.opened + 1, self._world.clock.monotonic_ms() - self._recovering_ms
            if self._told_reason:
                waited_ms = self._recovery_ms
                self._world.observer.event("serves_again", namespace=self.namespace, recovery_ms=waited_ms)
                self._reason = self._told_reason = ""
            shard.group_commit.when_ended = self._lost
            self._unchecked_claims.end(namespace)
            self._end_opening(None)
            if self._state is State.STOPPED:
                shard.group_commit.close()
            self._due_ms = self._world.clock.monotonic_ms() + MAINTENANCE_MS
            try:
                await shard.group_commit.run()
            finally:
                self._namespace, self._seen = None, shard.group_commit.mark
                await shard.eviction.close()
            if (ending := shard.group_commit.ending()) is not None:
                raise ending.error

    async def _open(self, stack: AsyncExitStack) -> Shard:
        world, namespace = self._world, self.namespace
        if world.standbys is None:
            async with world.openings:
                opened = await stack.enter_async_context(world.ledgers.open(namespace))
                return await self._begin(stack, Followed.owned(opened))
        self._followed = followed = await stack.enter_async_context(world.standbys.follow(namespace))
        stack.callback(self._follow_no_more)
        if standing := self.standing:
            self._unchecked_claims.stop()
            self._take(Event.STANDS_BY)
            world.observer.event("standing_by", namespace=namespace, detail=standing)
            self._end_opening(Recovering(f"namespace {namespace}: {standing}; nothing was written"))
        shard = await self._begin(stack, followed)
        world.observer.event("took_over", namespace=namespace, position=shard.group_commit.mark.position)
        self._follow_no_more()
        return shard

    async def _begin(self, stack: AsyncExitStack, followed: Followed) -> Shard:
        shard = await opened_shard(stack, self._world, self.namespace, followed, self.counts, self._seen)
        self._told_away = False
        return shard

    def _follow_no_more(self) -> None:
        self._followed = None

    def keep_up(self, now_ms: int) -> None:
        """Runs the shard's background work that is due; called every `EVICTION_MS`. Never raises.

        If nothing was written since the last call, skips the shard until the next maintenance.
        """
        try:
            self._keep_up(now_ms)
        except Exception as error:
            self._world.observer.event("maintenance_failed", namespace=self.namespace, **error_fields(error))

    def _keep_up(self, now_ms: int) -> None:
        if self._namespace is not None:
            self._namespace.home.group_commit.ending()
        self._tell_away(now_ms)
        namespace = self.serving
        self._watch(now_ms)
        self._unchecked_claims.tell(now_ms)
        if namespace is None:
            return
        shard = namespace.home
        if shard.group_commit.next_position == self._looked_at and now_ms < self._due_ms:
            return
        self._looked_at = shard.group_commit.next_position
        self._unchecked_claims.note(namespace)
        shard.eviction.step()
        if now_ms >= self._due_ms:
            self._due_ms = now_ms + MAINTENANCE_MS
            shard.scheduler.step()

    def _away(self) -> OncegateError | None:
        return None if self._namespace is None else self._namespace.home.opened.storage.away()

    def _tell_away(self, now_ms: int) -> None:
        """Logs once that an idle ledger is unreachable, and once that it is reachable again."""
        away = None if self.serving is None else self._away()
        if away is not None and not self._told_away:
            self._reason, self._recovering_ms, self._watched_ms = str(away), now_ms, now_ms
            self._world.observer.event("ledger_away", namespace=self.namespace, **error_fields(away))
        elif away is None and self._told_away and self.serving is not None:
            self._world.observer.event("ledger_reached", namespace=self.namespace)
        self._told_away = away is not None

    def _watch(self, now_ms: int) -> None:
        """Logs a long recovery and its reason. Called by the gateway: the owner's own task may hang."""
        if self.state != "RECOVERING" or self._state is State.STOPPED or now_ms < self._watched_ms + RECOVERING_MS:
            return
        self._watched_ms, waited_ms = now_ms, now_ms - self._recovering_ms
        reason = self._reason or "it is being opened"
        self._world.observer.event("recovering_long", namespace=self.namespace, recovering_ms=waited_ms, reason=reason)
