"""Owns every namespace of the process: transports find, create and delete namespaces here."""

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

# How long a start waits for namespaces whose ledgers are long, once another one serves.
OPENING_MS = 5_000


class Gateway:
    """The namespaces of one process: finds, creates and deletes them. Made by `open_gateway`."""

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
        # Where duplicates are told one by one; None: nowhere.
        self.duplicates = world.duplicates
        # What traces the requests of its doors; None: nothing does.
        self.tracer: Tracer | None = None
        self.clients = Clients()
        self.tenants = Tenants(world.limits, world.clock, self._open_claims)

    def namespace(self, name: str) -> Namespace:
        """Returns a namespace that serves. Raises NotFound, Recovering, or the error that keeps it down."""
        owner = self._owners.get(name)
        if owner is None:
            raise NotFound(_absent(name), namespaces=self.namespaces())
        if (namespace := owner.serving) is None:
            raise _refusal(owner)
        return namespace

    def _open_claims(self, namespaces: frozenset[str]) -> int:
        """Counts the claims that are open in these namespaces."""
        names = self._owners if ALL_NAMESPACES in namespaces else namespaces & self._owners.keys()
        serving = [namespace for name in names if (namespace := self._owners[name].serving) is not None]
        return sum(shard.journal.index.claims.open_claims for namespace in serving for shard in namespace.shards)

    def claims(self, name: str, caller: str = "") -> Namespace | Unchecked:
        """Returns the handler of claims of ids: the namespace, or, while its ledger is down and its settings let claims
        pass unchecked, the handler that grants them. `caller`: the name of the credential. Raises as `namespace`.
        """
        try:
            return self.namespace(name)
        except Recovering:
            owner = self._owners.get(name)
            if owner is None or (unchecked := owner.unchecked) is None:
                raise
            return replace(unchecked, caller=caller)

    async def create(self, namespace: str, key: bytes | None = None, tenant: Tenant | None = None) -> bool:
        """Makes a namespace with its own key and ledger; False when it exists. Durable when it returns.

        `key`: another namespace's, whose ids are to be known here; None: a new one. `tenant`: whose it is to be.
        Raises BadRequest, TooManyNamespaces; Recovering: it exists, and cannot be opened for now; KeyMismatch: it has
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
        """Ends a namespace for good: its name is free, what it held is set aside (`Ledgers.delete`).

        One that holds anything but settings is deleted only where `confirm` is its name; then it may be down, too, if
        no `marks` are to be found in it. What is under way in it is answered or refused first.

        Raises BadRequest (the default namespace, or another name), NotFound, NotEmpty, Recovering, LedgerDown,
        LedgerBehind, LedgerFull, DeadlinePassed: nothing was deleted; LedgerDown from the ledgers: unknown, repeat it.
        """
        if confirm is not None and confirm != namespace:
            raise BadRequest(f"confirm is {confirm[:80]!r}, not the name of namespace {namespace}; nothing was deleted")
        if namespace == DEFAULT_NAMESPACE:
            raise BadRequest(
                f"namespace {namespace} cannot be deleted: each start makes it where it is not there, so it would be "
                "back, and empty; nothing was deleted"
            )
        # Whoever asked may go away; then it is finished all the same.
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
            # Nothing is awaited since it was found empty: what comes from now on is refused.
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
        """Takes no new work from now on, or again; what is open is finished. A start takes work, whatever was before.

        It is noted in the default namespace. Raises BadRequest, TooLarge, Recovering, LedgerFull, DeadlinePassed:
        nothing was changed; LedgerDown: it is as asked, and whether it is noted is unknown.
        """
        await self.namespace(DEFAULT_NAMESPACE).operations.actions.note(
            "drain" if draining else "drain --undo", "", 0, note, deadline
        )
        self._world.draining = note if draining else None

    @property
    def draining(self) -> Note | None:
        """Why no new work is taken, as the operator who drains it has written; None: it is taken."""
        return self._world.draining

    def open_work(self) -> dict[str, dict[str, int]]:
        """Counts what a drained gateway has yet to finish, by namespace, those left out that have nothing open."""
        work = {}
        for owner in self.owners():
            if (namespace := owner.serving) is not None:
                index = namespace.home.journal.index
                counts = {"open_claims": index.claims.open_claims, "stages": sum(1 for _ in index.batches.all_stages())}
                work[owner.namespace] = {name: count for name, count in counts.items() if count}
        return {name: counts for name, counts in work.items() if counts}

    def namespaces(self) -> list[str]:
        """Names of the namespaces, sorted."""
        return sorted(self._owners)

    def owners(self) -> list[Owner]:
        """Lists who owns each namespace, sorted by their names; but for those that are being deleted."""
        return [owner for _, owner in sorted(self._owners.items()) if not owner.is_deleted]

    def readiness(self) -> dict[str, str]:
        """Tells SERVING, FULL, STANDBY, RECOVERING or DOWN for each namespace; it is ready when one serves."""
        return {name: owner.state for name, owner in sorted(self._owners.items()) if not owner.is_deleted}

    def standing(self, namespace: str) -> str:
        """Says for whom this gateway stands by in a namespace, and how far it has read; empty where it does not."""
        owner = self._owners.get(namespace)
        return "" if owner is None else owner.standing

    def reason(self, namespace: str) -> str:
        """Says in one line why a namespace recovers or is down; empty where it does not, or nothing is known yet."""
        owner = self._owners.get(namespace)
        return "" if owner is None else owner.reason

    async def _own(self, namespace: str) -> None:
        owner = self._owners[namespace] = Owner(self._world, namespace)
        await owner.started()

    async def start(self) -> None:
        """Owns every namespace there is, side by side; returns once one serves and no other is still being opened, or
        `OPENING_MS` after the first one serves.

        One that cannot be opened is opened later, and the others serve. Raises the first reason where none can be
        opened, and none is opened again soon.
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
        """Tells what ended the upkeep, and goes on a little later: without it nothing retires and ledgers grow."""
        error = None if upkeep.cancelled() else upkeep.exception()
        if error is not None and not self._closing:
            self.observer.event("maintenance_failed", **error_fields(error))
            upkeep.get_loop().call_later(EVICTION_MS / 1_000, self._upkeep_again)

    def _upkeep_again(self) -> None:
        if not self._closing:
            self._upkeep = self._begin_upkeep()

    async def _keep_up(self) -> None:
        """Keeps one clock for the background work of all namespaces: an idle one costs a look."""
        while True:
            await self.clock.sleep_ms(EVICTION_MS)
            now_ms = self.clock.monotonic_ms()
            for owner in list(self._owners.values()):
                owner.keep_up(now_ms)
            if self._world.standbys is not None and not self._changing.locked():
                self._follow_the_list()

    def _follow_the_list(self) -> None:
        """Stands by for namespaces that their owner has made since, and for those no more that it has deleted."""
        listed = set(self._world.ledgers.names())
        for name in listed - self._owners.keys():
            self._owners[name] = Owner(self._world, name)
        for name in self._owners.keys() - listed:
            owner = self._owners.pop(name)
            owner.stop(Recovering(f"namespace {name} was deleted by its owner; nothing was written"))
            self._begin_deletion(owner.close())

    async def close(self) -> None:
        """Writes all that was taken, and closes every ledger."""
        self._closing = True
        self._upkeep.cancel()
        await asyncio.gather(*self._deletions, return_exceptions=True)
        await asyncio.gather(*(owner.close() for owner in self._owners.values()))


async def _all_opened(owners: Iterable[Owner], serves: asyncio.Event) -> list[Exception | None]:
    return await asyncio.gather(*(_opened(owner, serves) for owner in owners))


async def _opened(owner: Owner, serves: asyncio.Event) -> Exception | None:
    """Returns once its first opening has ended: None, and `serves` is set, or why it does not serve."""
    try:
        await owner.started()
    except Exception as error:
        return error
    serves.set()
    return None


def _absent(namespace: str) -> str:
    """Says that there is no such namespace, and how to make it, where one may have this name."""
    try:
        check_namespace(namespace)
    except BadRequest as error:
        return f"no {error.detail}"
    return f"no namespace {namespace}; create it with: curl -X PUT <gateway>/v1/namespaces/{namespace}"


def _refusal(owner: Owner) -> Exception:
    """Returns what new callers get of a namespace that does not serve, by the row of its state (`core.lifecycle`).

    A cause keeps its code where it is to stop, or names another owner. Else the namespace may serve later: Recovering.
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
    """Opens a gateway over all namespaces of `ledgers`, serving when it is yielded, closed in order afterwards.

    `standby`: it takes over once the owner of the ledgers is gone, and stands by until then. `duplicates`: where they
    are told one by one.

    Raises LedgerBusy, LedgerDamaged, KeyMismatch and their like where no namespace can be served: nothing was written.
    BadRequest: these ledgers know no standby.
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
