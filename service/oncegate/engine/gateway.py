"""Owns all namespaces of the process; transports find, create and delete namespaces through it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from oncegate.core.errors import (
    BadRequest,
    KeyMismatch,
    LedgerFenced,
    NotFound,
    OncegateError,
    Recovering,
    Stop,
    TooManyNamespaces,
)
from oncegate.core.lifecycle import ROWS, Callers, State
from oncegate.engine.admission import Admission, Turns
from oncegate.engine.counts.counts import Clients
from oncegate.engine.counts.duplicate_log import DuplicateLogs
from oncegate.engine.deadline import Deadline
from oncegate.engine.failures import error_fields, reason_of
from oncegate.engine.limits import Limits
from oncegate.engine.names import ALL_NAMESPACES, DEFAULT_NAMESPACE, check_namespace
from oncegate.engine.namespace import Namespace
from oncegate.engine.policies.unchecked import Unchecked
from oncegate.engine.producer_requests import Note
from oncegate.engine.quotas import Tenant, Tenants
from oncegate.engine.recovery.owner import EVICTION_MS, RETRIED, Owner
from oncegate.engine.recovery.world import World
from oncegate.hashing.keys import key_check
from oncegate.ports import Clock, Ledgers, Mark, Observer, RunFolders, Standbys
from oncegate.ports.tracing import Tracer

# Longest wait of a start for namespaces with long ledgers, once another namespace serves.
OPENING_MS = 5_000


class Gateway:
    """The namespaces of one process. Created by `open_gateway`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._owners: dict[str, Owner] = {}
        self._closing = False
        self._upkeep = self._begin_upkeep()
        self._changing = asyncio.Lock()
        self._deletions: set[asyncio.Task[None]] = set()
        self.limits = world.limits
        self.clock = world.clock
        self.observer = world.observer
        self.admission = Admission(world.limits)
        self.turns = Turns()
        # Log of single duplicates; None: there is none.
        self.duplicates = world.duplicates
        # Traces the requests of all transports; None: tracing is off.
        self.tracer: Tracer | None = None
        self.clients = Clients()
        self.tenants = Tenants(world.limits, world.clock, self._open_claims)

    def namespace(self, name: str) -> Namespace:
        """Returns a serving namespace. Raises NotFound, Recovering, or the error that keeps the namespace down."""
        owner = self._owners.get(name)
        if owner is None:
            raise NotFound(_absent(name), namespaces=self.namespaces())
        if (namespace := owner.serving) is None:
            raise _refusal(owner)
        return namespace

    def _open_claims(self, namespaces: frozenset[str]) -> int:
        names = self._owners if ALL_NAMESPACES in namespaces else namespaces & self._owners.keys()
        serving = [namespace for name in names if (namespace := self._owners[name].serving) is not None]
        return sum(shard.journal.index.claims.open_claims for namespace in serving for shard in namespace.shards)

    def claims(self, name: str, caller: str = "") -> Namespace | Unchecked:
        """Returns the handler of id claims: the namespace or, while its ledger is down, a handler that grants all ids
        unchecked.

        The latter only if the namespace is configured for that. caller: the name of the credential. Raises as
        `namespace`.
        """
        try:
            return self.namespace(name)
        except Recovering:
            owner = self._owners.get(name)
            if owner is None or (unchecked := owner.unchecked) is None:
                raise
            return replace(unchecked, caller=caller)

    async def create(self, namespace: str, key: bytes | None = None, tenant: Tenant | None = None) -> bool:
        """Creates a namespace with its own key and ledger; returns False if it exists. Durable when it returns.

        key: of another namespace whose ids are to be known here; None: a new one.
        tenant: the owner of the namespace.

        Raises BadRequest, TooManyNamespaces; Recovering: it exists, but cannot be opened now; KeyMismatch: it has
        another key.
        """
        is_new = await self._made(namespace, key, tenant)
        if key is not None and self.namespace(namespace).key_check != key_check(key):
            raise KeyMismatch(f"namespace {namespace} has another key: what is known elsewhere has no meaning here")
        return is_new

    async def _made(self, namespace: str, key: bytes | None, tenant: Tenant | None) -> bool:
        check_namespace(namespace)
        async with self._changing:
            if namespace not in self._owners:
                if len(self._owners) >= self.limits.namespaces:
                    raise TooManyNamespaces(
                        f"there are {len(self._owners)} namespaces, and at most {self.limits.namespaces} may be "
                        "(`namespaces` of /v1/limits); nothing was made"
                    )
                if tenant is not None:
                    tenant.check_namespaces(self._owners)
                await self._world.ledgers.create(namespace, key)
                await self._own(namespace)
                return True
        await self._owners[namespace].started()
        return False

    async def delete(self, namespace: str, confirm: str | None, marks: Sequence[Mark], deadline: Deadline) -> None:
        """Deletes a namespace. Its name becomes free, and its contents are set aside (`Ledgers.delete`).

        Unless the namespace has only settings, `confirm` must be its name. With `confirm`, and without `marks`, it may
        be down. Requests under way are answered or refused first.

        Raises BadRequest (the default namespace, or another name), NotFound, NotEmpty, Recovering, LedgerDown,
        LedgerBehind, LedgerFull, DeadlinePassed: nothing was deleted. LedgerDown from the ledgers: effect unknown;
        retry.
        """
        if confirm is not None and confirm != namespace:
            raise BadRequest(f"confirm is {confirm[:80]!r}, not the name of namespace {namespace}; nothing was deleted")
        if namespace == DEFAULT_NAMESPACE:
            raise BadRequest(
                f"namespace {namespace} cannot be deleted: each start makes it where it is not there, so it would be "
                "back, and empty; nothing was deleted"
            )
        # The deletion is finished even if the caller disconnects.
        await asyncio.shield(self._begin_deletion(self._delete(namespace, confirm == namespace, marks, deadline)))

    def _begin_deletion(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        deletion = asyncio.create_task(work, name="deletion")
        self._deletions.add(deletion)
        deletion.add_done_callback(self._deletions.discard)
        return deletion

    async def _delete(self, namespace: str, confirmed: bool, marks: Sequence[Mark], deadline: Deadline) -> None:
        async with self._changing:
            deadline.check()
            if marks or not confirmed or namespace not in self._owners:
                serving = self.namespace(namespace)
                for mark in marks:
                    serving.require(mark)
                if not confirmed:
                    await serving.require_empty()
            # No await since the check for contents, so no request came in between. From now on requests are refused.
            owner = self._owners[namespace]
            owner.stop(Recovering(f"namespace {namespace} is being deleted; nothing was written"))
            await owner.close()
            try:
                await self._world.ledgers.delete(namespace)
            except BaseException:
                with suppress(Exception):
                    await self._own(namespace)
                raise
            del self._owners[namespace]
        self.observer.event("namespace_deleted", namespace=namespace)

    async def drain(self, note: Note, draining: bool, deadline: Deadline) -> None:
        """Stops accepting new work, or resumes it; open work is finished. A restart always accepts work.

        Recorded in the default namespace. Raises BadRequest, TooLarge, Recovering, LedgerFull, DeadlinePassed: nothing
        was changed. LedgerDown: drained or resumed as requested, but the record may be missing.
        """
        await self.namespace(DEFAULT_NAMESPACE).operations.actions.note(
            "drain" if draining else "drain --undo", "", 0, note, deadline
        )
        self._world.draining = note if draining else None

    @property
    def draining(self) -> Note | None:
        """The operator's note while no new work is accepted; None while new work is accepted."""
        return self._world.draining

    def open_work(self) -> dict[str, dict[str, int]]:
        """Counts the work that a drained gateway must finish, by namespace; omits namespaces without open work."""
        work = {}
        for owner in self.owners():
            if (namespace := owner.serving) is not None:
                index = namespace.home.journal.index
                counts = {"open_claims": index.claims.open_claims, "stages": sum(1 for _ in index.batches.all_stages())}
                work[owner.namespace] = {name: count for name, count in counts.items() if count}
        return {name: counts for name, counts in work.items() if counts}

    def namespaces(self) -> list[str]:
        return sorted(self._owners)

    def owners(self) -> list[Owner]:
        """Returns the owners of all namespaces, sorted by name, except namespaces that are being deleted."""
        return [owner for _, owner in sorted(self._owners.items()) if not owner.is_deleted]

    def readiness(self) -> dict[str, str]:
        """Returns SERVING, FULL, STANDBY, RECOVERING or DOWN for each namespace; the gateway is ready once one
        serves."""
        return {name: owner.state for name, owner in sorted(self._owners.items()) if not owner.is_deleted}

    def standing(self, namespace: str) -> str:
        """Returns a description of the owner that this gateway follows as a standby, and its read position; empty if it
        follows none."""
        owner = self._owners.get(namespace)
        return "" if owner is None else owner.standing

    def reason(self, namespace: str) -> str:
        """Returns in one line why a namespace is recovering or down; empty if it is neither or the reason is still
        unknown."""
        owner = self._owners.get(namespace)
        return "" if owner is None else owner.reason

    async def _own(self, namespace: str) -> None:
        owner = self._owners[namespace] = Owner(self._world, namespace)
        await owner.started()

    async def start(self) -> None:
        """Opens all namespaces concurrently; returns once each is open or has failed, or `OPENING_MS` after the first
        namespace serves.

        Namespaces that fail are reopened later. Raises the first error if all of them fail and none is retried soon.
        """
        for name in self._world.ledgers.names():
            self._owners[name] = Owner(self._world, name)
        first_serves = asyncio.Event()
        openings = asyncio.create_task(_all_opened(self._owners.values(), first_serves))
        long_enough = asyncio.create_task(self._waited_for_others(first_serves))
        waits: list[asyncio.Future[Any]] = [openings, long_enough]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if long_enough.done() and not openings.done():
            return
        refusals = [why for why in openings.result() if why is not None]
        if refusals and len(refusals) == len(self._owners) and not any(isinstance(why, Recovering) for why in refusals):
            raise refusals[0]

    async def _waited_for_others(self, first_serves: asyncio.Event) -> None:
        await first_serves.wait()
        await self.clock.sleep_ms(OPENING_MS)

    def _begin_upkeep(self) -> "asyncio.Task[None]":
        upkeep = asyncio.create_task(self._keep_up(), name="upkeep")
        upkeep.add_done_callback(self._upkeep_ended)
        return upkeep

    def _upkeep_ended(self, upkeep: "asyncio.Task[None]") -> None:
        """Logs why the maintenance task died and restarts it after a delay; without it nothing expires and ledgers
        grow."""
        error = None if upkeep.cancelled() else upkeep.exception()
        if error is not None and not self._closing:
            self.observer.event("maintenance_failed", **error_fields(error))
            upkeep.get_loop().call_later(EVICTION_MS / 1_000, self._upkeep_again)

    def _upkeep_again(self) -> None:
        if not self._closing:
            self._upkeep = self._begin_upkeep()

    async def _keep_up(self) -> None:
        """Runs the maintenance of all namespaces from one timer, so that idle namespaces cost little."""
        while True:
            await self.clock.sleep_ms(EVICTION_MS)
            now_ms = self.clock.monotonic_ms()
            for owner in list(self._owners.values()):
                owner.keep_up(now_ms)
            if self._world.standbys is not None and not self._changing.locked():
                self._follow_the_list()

    def _follow_the_list(self) -> None:
        """Follows namespaces that the owner has created since, and drops the namespaces that it has deleted."""
        listed = set(self._world.ledgers.names())
        for name in listed - self._owners.keys():
            self._owners[name] = Owner(self._world, name)
        for name in self._owners.keys() - listed:
            owner = self._owners.pop(name)
            owner.stop(Recovering(f"namespace {name} was deleted by its owner; nothing was written"))
            self._begin_deletion(owner.close())

    async def close(self) -> None:
        """Writes everything that was accepted, and closes all ledgers."""
        self._closing = True
        self._upkeep.cancel()
        await asyncio.gather(*self._deletions, return_exceptions=True)
        await asyncio.gather(*(owner.close() for owner in self._owners.values()))


async def _all_opened(owners: Iterable[Owner], serves: asyncio.Event) -> list[Exception | None]:
    return await asyncio.gather(*(_opened(owner, serves) for owner in owners))


async def _opened(owner: Owner, serves: asyncio.Event) -> Exception | None:
    """Waits for an owner's first opening; returns its error, or sets `serves` and returns None."""
    try:
        await owner.started()
    except Exception as error:
        return error
    serves.set()
    return None


def _absent(namespace: str) -> str:
    """Returns the error text for a missing namespace; it shows how to create the namespace if the name is valid."""
    try:
        check_namespace(namespace)
    except BadRequest as error:
        return f"no {error.detail}"
    return f"no namespace {namespace}; create it with: curl -X PUT <gateway>/v1/namespaces/{namespace}"


def _refusal(owner: Owner) -> Exception:
    """Returns the error for new callers of a namespace that does not serve, according to its state's row in
    `core.lifecycle`.

    Causes that are to stop the caller, or that name another owner, keep their code. Otherwise the namespace may serve
    later: Recovering.
    """
    namespace, state, cause = owner.namespace, owner.life, owner.cause
    if ROWS[state].effect.callers is Callers.OWNER:
        follows = f"this gateway stands by for namespace {namespace}: {owner.standing}"
        return Recovering(f"{follows}; nothing was written, ask the owner")
    if cause is None:
        return Recovering(f"namespace {namespace} is being rebuilt from its ledger; nothing was written")
    if state is State.STOPPED and isinstance(cause, OncegateError):
        return cause
    if isinstance(cause, Stop | LedgerFenced):
        return type(cause)(f"namespace {namespace} is down, {RETRIED}: {cause}")
    return Recovering(f"namespace {namespace} is down, {RETRIED}: {reason_of(cause)}; nothing was written")


@asynccontextmanager
async def open_gateway(
    ledgers: Ledgers,
    runs: RunFolders,
    clock: Clock,
    observer: Observer,
    limits: Limits | None = None,
    standby: bool = False,
    duplicates: DuplicateLogs | None = None,
) -> AsyncIterator[Gateway]:
    """Opens a gateway over all namespaces of `ledgers`; the gateway serves when it is yielded, and is shut down in
    order afterwards.

    standby: follow the owner of the ledgers until it is gone, then take over.
    duplicates: where single duplicates are logged.

    Raises LedgerBusy, LedgerDamaged, KeyMismatch and similar errors if no namespace can be served: nothing was written.
    BadRequest: these ledgers do not support standbys.
    """
    limits = limits if limits is not None else Limits()
    standbys = _standbys(ledgers) if standby else None
    gateway = Gateway(World(ledgers, runs, clock, observer, limits, standbys, duplicates=duplicates))
    try:
        await gateway.start()
        yield gateway
    finally:
        await gateway.close()


def _standbys(ledgers: Ledgers) -> Standbys:
    if not isinstance(ledgers, Standbys):
        raise BadRequest("these ledgers have an owner that nobody can stand by for: leave standby out, or use a server")
    return ledgers
