"""Registers drivers, which decide about retries, and records their acks of sequences and batches that they will never
retry.

Sources: RIFL (SOSP 2015), acks of a client that has all its results; MillWheel, ids are dropped once no sender can
retry.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from oncegate.core.acks import ACK_BATCH, ACK_NUMBER, BatchEffect, BatchNumber, BatchOrder, BatchState
from oncegate.core.entries.producers import Acked, DriverRegistered
from oncegate.core.errors import BadRequest, Fenced, OncegateError, TooLarge
from oncegate.core.producers import DRIVER, REGISTER_DRIVER, SEQUENCE_MAX, Entrance, Registration
from oncegate.engine.commit.journal import Journal
from oncegate.engine.commit.proven import answers
from oncegate.engine.deadline import Deadline
from oncegate.engine.names import check_name, check_source_offsets
from oncegate.engine.producer_requests import AckRequest, AckResult, DriverRequest, DriverResult
from oncegate.engine.usecases import producer_refusals as refusals
from oncegate.index.producers.decide import registrant, standing
from oncegate.index.producers.intervals import flat
from oncegate.index.producers.store import Driver, ProducerState


class Drivers:
    """The drivers of one journal."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._store = journal.index.producers

    @answers("register_driver")
    async def register(self, request: DriverRequest, deadline: Deadline) -> DriverResult:
        """Registers a driver under this token and returns its epoch. A new token gets a new epoch, which fences older
        epochs at once.

        Raises Fenced if a later one has registered, TooLarge, BadRequest, LedgerFull, DeadlinePassed: nothing was
        changed. LedgerDown: effect unknown; retry.
        """
        journal, drivers = self.journal, self._store.drivers
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

    @answers("ack")
    async def ack(self, request: AckRequest, deadline: Deadline) -> AckResult:
        """Records that the driver will never retry these sequences and batches: they become STALE and are forgotten.

        Each producer is a part of the ack, and so is each batch up to `request.batch`; a refused part does not stop the
        others.

        Raises UnknownDriver, Fenced, NotDriver, OlderBatch, TooLarge, BadRequest, LedgerFull, DeadlinePassed: nothing
        was changed. LedgerDown: effect unknown; retry.
        """
        journal = self.journal
        if len(request.upto) > journal.limits.producers:
            raise TooLarge(f"{len(request.upto)} producers in one ack; at most {journal.limits.producers}")
        if request.batch is not None and request.batch > SEQUENCE_MAX:
            raise BadRequest(f"batch {request.batch}: the highest is {SEQUENCE_MAX}; nothing was acked")
        check_source_offsets(request.source_offsets, journal.limits)
        deadline.check()
        driver = self._own(request)
        batches = self._batches(driver, request)
        parts = [(name, sequence, self._refusal(driver, name, sequence)) for name, sequence in request.upto]
        open_claims = journal.index.claims.scopes.open_claims(driver.name, batches)
        if ACK_BATCH[BatchState.OPEN].effect is not BatchEffect.HOLD_BACK:
            open_claims = {}
        moves = dict(self._moves((name, sequence) for name, sequence, refused in parts if refused is None))
        held_back = tuple(open_claims)
        is_news = moves or batches > driver.batches or (batches and held_back != driver.held_back)
        if is_news or self._moves_source(request):
            journal.group_commit.check()
            raw, source = np.array(held_back, "<u8").tobytes(), (request.topic, request.source_offsets)
            journal.record([Acked(driver.name, driver.epoch, batches, flat(moves), journal.wall_ms(), raw, *source)])
        of_batches = [
            refusals.batch_not_done(driver.name, *one) for one in list(open_claims.items())[: refusals.PLACES_MAX]
        ]
        refused = (*(why for *_, why in parts if why is not None), *of_batches)
        named = self._named(driver, request)
        answer = AckResult(tuple((one.name, one.watermark) for one in named), _last(driver), refused)
        if refused:  # refusals depend on everything that the index has applied
            await journal.group_commit.all_durable()
        await journal.group_commit.durable(max([driver.position, *(one.position for one in named)]))
        return answer

    def _moves_source(self, request: AckRequest) -> bool:
        """Returns whether the ack carries new offsets of the driver's source."""
        told = self.journal.index.source_offsets.get(request.driver, request.topic)
        return bool(request.topic) and request.source_offsets != (b"" if told is None else told.offsets)

    def _batches(self, driver: Driver, request: AckRequest) -> int:
        """Returns the number of batches acked with this request, counted from batch 0; 0 if it names no batch. Raises
        OlderBatch."""
        if request.batch is None:
            return 0
        batches = request.batch + 1
        order = BatchOrder.NEWER if batches > driver.batches else BatchOrder.SAME
        order = BatchOrder.OLDER if batches < driver.batches else order
        if ACK_NUMBER[order].effect is BatchNumber.REFUSE_OLDER:
            raise refusals.older_batch(request, driver.batches - 1)
        return batches

    def _refusal(self, driver: Driver, name: str, sequence: int) -> OncegateError | None:
        producer = self._store.producers.get(name)
        if producer is None:
            return refusals.unknown_part(name)
        if producer.driver != driver.name:
            return refusals.other_driver(producer, driver.name)
        undone = self._store.undone(producer, sequence)[: refusals.PLACES_MAX].tolist()
        return refusals.not_done(producer, [[first, min(last, sequence)] for first, last in undone]) if undone else None

    def _named(self, driver: Driver, request: AckRequest) -> list[ProducerState]:
        producers = (self._store.producers.get(name) for name, _ in request.upto)
        return [producer for producer in producers if producer is not None and producer.driver == driver.name]

    def _own(self, request: AckRequest) -> Driver:
        driver = self._store.drivers.get(request.driver)
        effect = DRIVER[standing(driver, request.epoch, request.token)].effect
        if driver is None or effect is not Entrance.GO_ON:
            raise refusals.not_the_driver(effect, request, driver)
        return driver

    def _moves(self, named: Iterable[tuple[str, int]]) -> Iterator[tuple[int, int]]:
        """Yields (producer's number, its new watermark), which never moves back or beyond the highest claimed
        sequence."""
        for name, sequence in sorted(named, key=lambda item: item[1]):
            producer = self._store.producers[name]
            reached = producer.watermark_after(sequence)
            if reached is not None:
                yield producer.number, reached


def _last(driver: Driver) -> int | None:
    return driver.batches - 1 if driver.batches else None
