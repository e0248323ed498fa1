"""Applies ledger entries to the store of producers, and undoes them: the only way in which entries change it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from oncegate.arraytypes import U64
from oncegate.core.claims import ClaimState
from oncegate.core.entries.kinds import Entry
from oncegate.core.entries.producers import (
    Acked,
    DriverRegistered,
    ProducerRegistered,
    Resolved,
    SequencesClaimed,
    SequencesCompleted,
    SequencesReleased,
)
from oncegate.index.producers.intervals import count_of, raw_spans
from oncegate.index.producers.store import (
    DONE,
    FREE,
    GIVEN,
    HELD,
    LEFT,
    OWN,
    TAKEN,
    Driver,
    ProducerCall,
    ProducerState,
    ProducerStore,
)

ProducerUndo = Callable[[], None]
# A superseded token that registers again, by a late copy of its request, is among the last few.
PAST_TOKENS = 8
# Ended calls that may still be repeated: far more than an attempt has in flight. Pruned at twice this number.
CALLS_KEPT = 256


def apply(store: ProducerStore, position: int, entry: Entry, now_ms: int = 0) -> ProducerUndo | None:
    """Applies one entry. Returns its undo, or None if it concerns no producer. Undo the newest first."""
    match entry:
        case DriverRegistered():
            return _register_driver(store, position, entry)
        case ProducerRegistered():
            return _register(store, position, entry, now_ms)
        case SequencesClaimed():
            return _claim(store, position, entry, now_ms)
        case SequencesCompleted() | SequencesReleased():
            return _settle(store, position, entry)
        case Acked():
            return _ack(store, position, entry)
        case Resolved() if entry.producer_id:
            return _resolve(store, position, entry)
    return None


def _register_driver(store: ProducerStore, position: int, entry: DriverRegistered) -> ProducerUndo:
    before = store.drivers.get(entry.driver, Driver(entry.driver))
    is_known = entry.driver in store.drivers
    assert entry.epoch == before.epoch + 1, "epochs have no holes"
    past = (*before.past, before.token)[-PAST_TOKENS:] if before.epoch else ()
    store.drivers[entry.driver] = replace(before, epoch=entry.epoch, token=entry.token, past=past, position=position)

    def undo() -> None:
        if is_known:
            store.drivers[entry.driver] = before
        else:
            del store.drivers[entry.driver]

    return undo


def _register(store: ProducerStore, position: int, entry: ProducerRegistered, now_ms: int) -> ProducerUndo:
    """Marks the previous epoch's claims as abandoned: the fenced holder can no longer complete or release them."""
    before = store.producers.get(entry.producer)
    old = before or ProducerState(entry.producer, entry.producer_id, entry.driver)
    assert (old.number, old.driver, old.epoch + 1) == (entry.producer_id, entry.driver, entry.epoch), "one by one"
    new = replace(
        old,
        epoch=entry.epoch,
        token=entry.token,
        past=(*old.past, old.token)[-PAST_TOKENS:] if old.epoch else (),
        lease_ms=entry.lease_ms,
        gaps=entry.gaps,
        lease_until_ms=now_ms + entry.lease_ms,
        last_call=-1,
        quiet_call=-1,
        calls={},
        intervals=old.intervals.relabelled(_left(old.intervals.label)),
        position=position,
        writer=entry.writer,
        writer_before=old.writer,
    )
    store.put(new)

    def undo() -> None:
        if before is not None:
            store.put(before)
        else:
            del store.producers[new.name], store.by_number[new.number]

    return undo


def _claim(store: ProducerStore, position: int, entry: SequencesClaimed, now_ms: int) -> ProducerUndo:
    producer = _current(store, entry)
    store.changing(producer)
    fresh, taken = raw_spans(entry.fresh), raw_spans(entry.taken)
    before = (producer.calls, producer.intervals, producer.claimed_to, producer.last_call, producer.position)
    digests_before = producer.digests
    intervals = producer.intervals.painted(fresh, HELD << 32 | entry.call).painted(taken, TAKEN << 32 | entry.call)
    highest = max(int(spans[-1, 1]) for spans in (fresh, taken) if len(spans))
    producer.calls = _pruned(producer.calls)
    producer.calls[entry.call] = ProducerCall(
        entry.digest, count_of(fresh) + count_of(taken), ClaimState.OPEN, position
    )
    producer.intervals, producer.last_call, producer.position = intervals, entry.call, position
    producer.claimed_to = max(highest, -1 if producer.claimed_to is None else producer.claimed_to)
    producer.lease_ms, producer.lease_until_ms = entry.lease_ms, now_ms + entry.lease_ms
    store.takeovers += count_of(taken)
    store.keep_digests(producer, producer.digests.replaced(fresh, taken, np.frombuffer(entry.digests, "<u4")))

    def undo() -> None:
        store.keep_digests(producer, digests_before)
        producer.calls, producer.intervals, producer.claimed_to, producer.last_call, producer.position = before
        producer.calls.pop(entry.call, None)
        # The lease is not undone: the caller is alive, and may have been answered a renewal since.
        store.takeovers -= count_of(taken)

    return undo


def _settle(store: ProducerStore, position: int, entry: SequencesCompleted | SequencesReleased) -> ProducerUndo:
    producer = _current(store, entry)
    store.changing(producer)
    call = producer.calls[entry.call]
    before = (producer.intervals, producer.position, call.state, call.position)
    is_done = isinstance(entry, SequencesCompleted)
    of_call = producer.intervals.label & np.uint64(0xFFFF_FFFF) == np.uint64(entry.call)
    kinds = producer.intervals.label >> np.uint64(32)
    is_open = of_call & ((kinds == HELD) | (kinds == TAKEN))
    producer.intervals = producer.intervals.painted(producer.intervals.spans(is_open), (OWN if is_done else FREE) << 32)
    call.state = ClaimState.DONE if is_done else ClaimState.RELEASED
    producer.position = call.position = position

    def undo() -> None:
        producer.intervals, producer.position, call.state, call.position = before

    return undo


def _ack(store: ProducerStore, position: int, entry: Acked) -> ProducerUndo:
    """Raises watermarks; sequences up to the watermark are forgotten individually."""
    driver = store.drivers[entry.driver]
    watermarks = [(store.by_number[number], watermark) for number, watermark in raw_spans(entry.upto).tolist()]
    before = [(one, one.watermark, one.intervals, one.position, one.digests) for one, _ in watermarks]
    driver_before = driver.batches, driver.held_back, driver.position
    store.changing_driver(driver)
    driver.position = position
    if entry.batches:
        driver.batches = max(driver.batches, entry.batches)
        driver.held_back = tuple(np.frombuffer(entry.held_back, "<u8").tolist())
    for producer, watermark in watermarks:
        store.changing(producer)
        producer.watermark, producer.intervals = watermark, producer.intervals.above(watermark)
        store.keep_digests(producer, producer.digests.above(watermark))
        producer.position = position

    def undo() -> None:
        driver.batches, driver.held_back, driver.position = driver_before
        for producer, watermark, intervals, old_position, digests in before:
            store.keep_digests(producer, digests)
            producer.watermark, producer.intervals, producer.position = watermark, intervals, old_position

    return undo


def _resolve(store: ProducerStore, position: int, entry: Resolved) -> ProducerUndo:
    """Also ends the calls that held any of the spans; a later complete or release of such a call reports its end."""
    producer, spans = store.by_number[entry.producer_id], raw_spans(entry.spans)
    store.changing(producer)
    before = (producer.calls, producer.intervals, producer.position)
    state = ClaimState.DONE if entry.is_done else ClaimState.RELEASED
    held = held_calls(producer, spans)
    over = {number: replace(producer.calls[number], state=state, position=position) for number in held}
    producer.calls = producer.calls | over
    producer.intervals = producer.intervals.painted(spans, (DONE if entry.is_done else GIVEN) << 32)
    producer.position = position

    def undo() -> None:
        producer.calls, producer.intervals, producer.position = before

    return undo


def held_calls(producer: ProducerState, spans: U64) -> dict[int, U64]:
    """Returns the open calls that hold any of the spans, shape (m, 2), each with all its spans."""
    kinds = producer.intervals.label >> np.uint64(32)
    calls = (producer.intervals.label & np.uint64(0xFFFF_FFFF)).astype(np.int64)
    is_held = (kinds == HELD) | (kinds == TAKEN)
    first, last = producer.intervals.first, producer.intervals.last
    at = np.searchsorted(spans[:, 0], last, "right") - 1
    is_met = is_held & (at >= 0) & (spans[np.maximum(at, 0), 1] >= first) if len(spans) else is_held & False
    numbers = np.unique(calls[is_met]).tolist()
    return {number: producer.intervals.spans(is_held & (calls == number)) for number in numbers}


def _current(store: ProducerStore, entry: SequencesClaimed | SequencesCompleted | SequencesReleased) -> ProducerState:
    producer = store.by_number[entry.producer_id]
    assert producer.epoch == entry.epoch, "only the epoch in force claims and settles"
    return producer


def _left(label: U64) -> U64:
    """Returns the labels to which an epoch's intervals change in the next epoch."""
    kinds = label >> np.uint64(32)
    is_open = (kinds == HELD) | (kinds == TAKEN)
    return np.where(is_open, np.uint64(LEFT << 32), np.where(kinds == OWN, np.uint64(DONE << 32), label))


def _pruned(calls: dict[int, ProducerCall]) -> dict[int, ProducerCall]:
    """Returns the calls if they are few; else a new dictionary of the open calls and the last of the others."""
    if len(calls) < 2 * CALLS_KEPT:
        return calls
    recent = set(list(calls)[-CALLS_KEPT:])
    return {number: call for number, call in calls.items() if call.state is ClaimState.OPEN or number in recent}
