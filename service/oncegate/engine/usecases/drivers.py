"""Drivers: who owns the retries registers, and acks what will not be run again. Nobody else forgets anything.

Sources: RIFL (SOSP 2015), acks of a client that has all its results; MillWheel, ids go once no sender can retry.
"""

from collections.abc import Iterator

from oncegate.core.entries.producers import Acked, DriverRegistered
from oncegate.core.errors import BadRequest, Fenced, TooLarge, UnknownProducer
from oncegate.core.producers import DRIVER, REGISTER_DRIVER, SEQUENCE_MAX, Entrance, Registration
from oncegate.engine.commit.journal import Journal
from oncegate.engine.deadline import Deadline
from oncegate.engine.names import check_name
from oncegate.engine.requests import AckRequest, AckResult, DriverRequest, DriverResult
from oncegate.engine.usecases import producer_refusals as refusals
from oncegate.index.producers.decide import registrant, standing
from oncegate.index.producers.intervals import flat
from oncegate.index.producers.store import Driver, Producer

# So many intervals are named where an ack is refused: enough to look at one by one.
_INTERVALS_MAX = 10


class Drivers:
    """The use cases of drivers over one journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._index = journal.index.producers

    async def register(self, request: DriverRequest, deadline: Deadline) -> DriverResult:
        """An epoch for this token, the same again for the same token. The newest wins at once: older acks are fenced.

        Raises Fenced when a later one has followed, TooLarge, BadRequest, LedgerFull, DeadlinePassed: nothing was
        changed; LedgerDown: unknown, repeat it.
        """
        journal, drivers = self._journal, self._index.drivers
        check_name("driver", request.driver, journal.limits)
        deadline.check()
        registered = drivers.get(request.driver)
        effect = REGISTER_DRIVER[registrant(registered, request.token, 0)].effect
        if effect is Registration.REFUSE_FENCED:
            raise Fenced(f"another process has registered as driver {request.driver} after this one: it is over")
        if effect is Registration.NEXT_EPOCH:
            if registered is None and len(drivers) >= journal.limits.drivers:
                raise TooLarge(
                    f"{len(drivers)} drivers in a namespace are all there may be: a driver is a job, not a run of it"
                )
            journal.group_commit.check()
            epoch = 1 if registered is None else registered.epoch + 1
            journal.record([DriverRegistered(request.driver, epoch, request.token, journal.wall_ms())])
        driver = drivers[request.driver]
        answer = DriverResult(driver.epoch, _last(driver))
        await journal.group_commit.durable(driver.position)
        return answer

    async def ack(self, request: AckRequest, deadline: Deadline) -> AckResult:
        """Nothing of this will be run again: everything up to it is STALE for ever, and need not be known any more.

        All of it or nothing. Raises UnknownDriver, Fenced, NotDriver, UnknownProducer, OtherDriver, NotDone, TooLarge,
        BadRequest, LedgerFull, DeadlinePassed: nothing was changed; LedgerDown: unknown, repeat it.
        """
        journal = self._journal
        if len(request.upto) > journal.limits.producers:
            raise TooLarge(f"{len(request.upto)} producers in one ack; at most {journal.limits.producers}")
        if request.batch is not None and request.batch > SEQUENCE_MAX:
            raise BadRequest(f"batch {request.batch}: the highest is {SEQUENCE_MAX}; nothing was acked")
        deadline.check()
        driver = self._own(request)
        named = [(self._of(driver, name), sequence) for name, sequence in request.upto]
        batches = 0 if request.batch is None else request.batch + 1
        self._check_done(named)
        if open_ids := journal.index.claims.scopes.open_ids(driver.name, batches):
            raise refusals.batch_not_done(request, open_ids)
        moves = dict(self._moves(named))
        if moves or batches > driver.batches:
            journal.group_commit.check()
            journal.record([Acked(driver.name, driver.epoch, batches, flat(moves), journal.wall_ms())])
        answer = AckResult(tuple((producer.name, producer.watermark) for producer, _ in named), _last(driver))
        positions = [producer.position for producer, _ in named]
        await journal.group_commit.durable(max([driver.position, *positions]))
        return answer

    def _own(self, request: AckRequest) -> Driver:
        driver = self._index.drivers.get(request.driver)
        effect = DRIVER[standing(driver, request.epoch, request.token)].effect
        if driver is None or effect is not Entrance.GO_ON:
            raise refusals.not_the_driver(effect, request, driver)
        return driver

    def _of(self, driver: Driver, name: str) -> Producer:
        producer = self._index.producers.get(name)
        if producer is None:
            raise UnknownProducer(f"there is no producer {name}; nothing was acked")
        if producer.driver != driver.name:
            raise refusals.other_driver(producer, driver.name)
        return producer

    def _check_done(self, named: list[tuple[Producer, int]]) -> None:
        """NotDone where an ack would pass over something that was claimed and is not done."""
        undone: list[dict[str, object]] = [
            {"producer": producer.name, "first": int(first), "last": min(int(last), sequence)}
            for producer, sequence in named
            for first, last in self._index.undone(producer, sequence)[:_INTERVALS_MAX]
        ][:_INTERVALS_MAX]
        if undone:
            raise refusals.not_done(undone)

    def _moves(self, named: list[tuple[Producer, int]]) -> Iterator[tuple[int, int]]:
        """(producer's number, its new watermark): never back, never beyond what was claimed."""
        for producer, sequence in sorted(named, key=lambda item: item[1]):
            reached = self._index.watermark_after(producer, sequence)
            if reached is not None:
                yield producer.number, reached


def _last(driver: Driver) -> int | None:
    return driver.batches - 1 if driver.batches else None
