"""State and calls of a driver and of a producer, as steps for both clients. No I/O.

A producer writes one lane of a source, in order. Registering gives it a new epoch; requests with an older epoch are
refused (FENCED). Only the driver, which owns the retries, acks.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import pyarrow as pa

from oncegate_spark.errors import BadOption, NotCompleted, ProducerBusy, Refused, StillBusy
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.answers import (
    Acked,
    ClaimedSequences,
    DriverEpoch,
    Produced,
    RefusedPart,
    Registered,
    Settled,
)
from oncegate_spark.protocol.calls.lease import ClaimLease
from oncegate_spark.protocol.calls.namespace import Calls
from oncegate_spark.protocol.calls.steps import JSON, Pause, Steps, produced_of
from oncegate_spark.protocol.columns import Columns, column_names
from oncegate_spark.protocol.effort import LEASE_MS, BusyWatch, Reply, in_doubt, new_token
from oncegate_spark.protocol.packed import Verdicts
from oncegate_spark.protocol.payloads import OF_SEQUENCES, conflict, dropped
from oncegate_spark.protocol.payloads import checked as checked_conflict
from oncegate_spark.protocol.sequences import Sequences, packed, sequence_array

PAGE_INTERVALS = 1_000  # the gateway's maximum of each kind in one reply

SOURCE_ID = "source_id"

T = TypeVar("T")


class DriverCalls:
    """State of a driver, which acks what its producers will never retry, under its own token."""

    def __init__(self, calls: Calls, name: str, token: str | None = None) -> None:
        self.name = checked(name, "driver")
        self.token = token or new_token()
        self.epoch: int | None = None
        self._calls = calls

    def register(self) -> Steps[DriverEpoch]:
        """Registers as the driver of this name, under a new epoch."""
        registered = yield from self._post("register", {"token": self.token}, _driver_epoch)
        self.epoch = registered.epoch
        return registered

    def ack(
        self, upto: Mapping[str, int], batch: int | None, topic: str | None = None, source_offsets: str | None = None
    ) -> Steps[Acked]:
        """Acks sequences and a batch that will never be retried. Raises BadOption before registering, OlderBatch,
        Fenced.
        """
        if topic is None and source_offsets is not None:
            raise BadOption("source_offsets need topic, the topic that is written to; nothing was acked")
        pairs = [{"producer": producer, "sequence": sequence} for producer, sequence in upto.items()]
        fields = {"token": self.token, "epoch": registered(self.epoch), "upto": pairs}
        optional = {"batch": batch, "topic": topic, "source_offsets": source_offsets}
        return self._post(
            "ack", {**fields, **{name: value for name, value in optional.items() if value is not None}}, _acked
        )

    def _post(self, verb: str, fields: Mapping[str, object], read: Callable[[Reply], T]) -> Steps[T]:
        path, what = f"/drivers/{quote(self.name, safe='')}:{verb}", f"{verb} of driver {self.name}"
        unknown = f"whether the driver {verb}s; asking again is harmless"
        return self._calls.send(self._calls.post(path, what, unknown, JSON, json.dumps(fields).encode()), read)


class ProducerCalls:
    """State of a producer in one attempt: token, epoch, the number of the next call, and its open claims."""

    def __init__(
        self,
        calls: Calls,
        name: str,
        driver: str,
        token: str | None = None,
        lease_ms: int | None = None,
        gaps: str = "allow",
        source_id: str | None = None,
    ) -> None:
        self.name, self.driver = checked(name, "producer"), checked(driver, "driver")
        self.token = token or new_token()
        self.epoch: int | None = None
        self.lease_ms = lease_ms
        if gaps not in ("allow", "refuse"):
            raise BadOption(f"gaps must be allow or refuse, not {gaps!r}; nothing was written")
        self._gaps, self._source_id = gaps, source_id
        self._calls = calls
        self._next = 0
        self._open: dict[int, ClaimedSequences] = {}

    def register(self) -> Steps[Registered]:
        """Registers, waiting while another attempt holds a live lease.

        Raises ProducerBusy once that attempt has renewed nothing for its lease + 50 %.
        """
        watch: BusyWatch | None = None
        tries = self._calls.tries
        while True:
            try:
                registered = yield from self._register()
            except ProducerBusy as busy:
                watch = watch or BusyWatch(self.lease_ms or LEASE_MS, tries.rng)
                pause_ms = watch.observe(tries.now_ms(), busy.lease_left_ms)
                if pause_ms is None:
                    raise
                yield Pause(pause_ms)
            else:
                self.epoch = registered.epoch
                return registered

    def _register(self) -> Steps[Registered]:
        fields: dict[str, object] = {"token": self.token, "driver": self.driver}
        if self.lease_ms is not None:
            fields["lease_ms"] = self.lease_ms
        if self._gaps != "allow":
            fields["gaps"] = self._gaps

        def ask(members: Mapping[str, object]) -> Steps[Registered]:
            return self._post("register", members, _registered, "whether it is registered; asking again is harmless")

        return with_newer(ask, fields, SOURCE_ID, self._source_id)

    def claim(
        self, sequences: Sequences, prev_sequence: int | None, lease_ms: int | None = None
    ) -> Steps[ClaimedSequences]:
        """Claims strictly increasing sequences. Raises BadId before anything is sent, Gap, OutOfOrder, Fenced."""
        numbers = sequences if isinstance(sequences, pa.Array | pa.ChunkedArray) else list(sequences)
        column = sequence_array(numbers)
        call, headers = self._next_call(), {"Content-Type": codecs.PACKED, "Accept": codecs.PACKED}
        headers |= {"Oncegate-Token": self.token, "Oncegate-Call": str(call)}
        headers["Oncegate-Epoch"] = str(registered(self.epoch))
        if prev_sequence is not None:
            headers["Oncegate-Prev-Sequence"] = str(prev_sequence)
        if (lease := lease_ms or self.lease_ms) is not None:
            headers["Oncegate-Lease-Ms"] = str(lease)
        what, unknown = f"claim {call} of producer {self.name}", "whether the sequences are claimed"
        request = self._calls.post(self._path("claim"), what, unknown, headers, packed(column))
        claimed = yield from self._calls.send(
            request,
            lambda reply: ClaimedSequences(numbers, Verdicts.read(reply.body, len(column)), call, reply.began_ms),
        )
        if claimed.verdicts.granted:
            self._open[call] = claimed
        if "IN_DOUBT" in claimed.verdicts:
            yield from self.settle(claimed, "release")
            raise in_doubt([column], claimed.verdicts, f"producer {self.name}")
        return claimed

    def complete(self, claimed: ClaimedSequences) -> Steps[None]:
        """Completes a claim. Raises StillBusy if some sequences are not this attempt's."""
        yield from self.settle(claimed, "complete")
        if claimed.verdicts.unsettled:
            raise StillBusy(
                f"{claimed.verdicts.granted} sequences of producer {self.name} are written and completed; "
                f"{claimed.verdicts.unsettled} belong to another attempt; whether those are written is unknown"
            )

    def settle(self, claimed: ClaimedSequences, verb: str, timeout_ms: int | None = None) -> Steps[Settled | None]:
        """Completes, releases or renews a claim; returns None if nothing was granted. Raises Fenced
        by a newer attempt.
        """
        if not claimed.verdicts.granted:
            return None
        fields = {"token": self.token, "epoch": registered(self.epoch), "call": claimed.call}
        unknown = f"whether the claim is {verb.removesuffix('e')}ed"
        done = yield from self._post(verb, fields, _settled, unknown, timeout_ms)
        if verb != "renew":
            self._open.pop(claimed.call, None)
            claimed.settled = True
        return done

    def held(self, claimed: ClaimedSequences) -> ClaimLease | None:
        """Returns the lease to renew while the granted rows are written; None if nothing was granted."""
        if not claimed.verdicts.granted:
            return None
        fields = {"token": self.token, "epoch": registered(self.epoch), "call": claimed.call}

        def renew(calls: Calls, timeout_ms: int) -> Steps[Settled]:
            body, what = json.dumps(fields).encode(), f"renewal of producer {self.name}"
            request = calls.post(self._path("renew"), what, "whether the lease goes on", JSON, body)
            return calls.send(request, _settled, timeout_ms)

        return ClaimLease(f"producer {self.name}", claimed.began_ms, claimed.verdicts.lease_ms, renew)

    def close(self, timeout_ms: int | None = None) -> Steps[None]:
        """Ends the lease, so that open claims may be taken over at once. No effect before registering."""
        if self.epoch is not None:
            fields = {"token": self.token, "epoch": self.epoch}
            yield from self._post("close", fields, lambda reply: None, "whether the lease has ended", timeout_ms)

    def produce(
        self,
        topic: str,
        body: bytes | memoryview,
        sequence_col: str,
        prev_sequence: int | None = None,
        key_col: Columns = (),
        digest_cols: Columns = (),
        on_conflict: str = "fail",
    ) -> Steps[Produced]:
        """Appends rows, an Arrow stream, whose sequences are claimed, written and completed in one request.

        Raises PayloadConflict for sequences written with another payload, unless on_conflict is "drop".
        """
        drops, payload = checked_conflict(on_conflict) == "drop", column_names(digest_cols) if digest_cols else ()
        query = {"producer": self.name, "epoch": str(registered(self.epoch)), "sequence_col": sequence_col}
        query |= {} if prev_sequence is None else {"prev_sequence": str(prev_sequence)}
        query |= {"key_col": ",".join(column_names(key_col))} if key_col else {}
        query |= {"digest_col": ",".join(payload)} if payload else {}
        call, headers = self._next_call(), {"Content-Type": codecs.ARROW, "Accept": codecs.PACKED}
        headers |= {"Oncegate-Token": self.token, "Oncegate-Call": str(call)}
        path = f"/topics/{quote(topic, safe='')}/records:produce?{urlencode(query)}"
        what, unknown = f"produce {call} of producer {self.name}", "whether these rows were written"
        request = self._calls.post(path, what, unknown, headers, body)
        done = yield from self._calls.send(request, lambda reply: produced_of(reply, codecs.rows_in(body)))
        verdicts = done.verdicts
        if verdicts is None or not ("IN_DOUBT" in verdicts or verdicts.conflicts):
            return done
        with pa.ipc.open_stream(body) as reader:
            column = reader.read_all().column(sequence_col).combine_chunks()
        if "IN_DOUBT" in verdicts:
            raise in_doubt([column], verdicts, f"producer {self.name}")
        what = f"producer {self.name}, payload {', '.join(payload)}"
        if not drops:
            raise conflict([column], verdicts.conflicting, done.rows + verdicts.own, what, OF_SEQUENCES)
        dropped([column], verdicts.conflicting, what)
        return done

    def explain(self) -> Steps[dict[str, Any]]:
        """Returns everything that the gateway knows about the producer, reading its intervals page by page."""
        path, what = f"/producers/{quote(self.name, safe='')}", f"look at producer {self.name}"
        explained = yield from self._calls.get(f"{path}?limit={PAGE_INTERVALS}", what, _members)
        while (after := explained.pop("next")) is not None:
            more = yield from self._calls.get(f"{path}?limit={PAGE_INTERVALS}&after={after}", what, _members)
            explained = {**more, "done": explained["done"] + more["done"], "open": explained["open"] + more["open"]}
        return explained

    def left(self, error: BaseException | None) -> None:
        """Raises NotCompleted if a claim is open at the end of the attempt, or adds a note to `error`."""
        if not self._open:
            return
        count = sum(claimed.verdicts.granted for claimed in self._open.values())
        text = (
            f"producer {self.name} ended with {count} granted sequences neither completed nor released; unknown: "
            "whether they are written. The next attempt takes them over"
        )
        self._open.clear()
        if error is None:
            raise NotCompleted(text)
        error.add_note(text)

    def _next_call(self) -> int:
        self._next += 1
        return self._next - 1

    def _path(self, verb: str) -> str:
        return f"/producers/{quote(self.name, safe='')}:{verb}"

    def _post(
        self,
        verb: str,
        fields: Mapping[str, object],
        read: Callable[[Reply], T],
        unknown: str,
        timeout_ms: int | None = None,
    ) -> Steps[T]:
        what = f"{verb} of producer {self.name}"
        request = self._calls.post(self._path(verb), what, unknown, JSON, json.dumps(fields).encode())
        return self._calls.send(request, read, timeout_ms)


def with_newer(
    ask: Callable[[Mapping[str, object]], Steps[T]], fields: Mapping[str, object], name: str, value: str | None
) -> Steps[T]:
    """Sends a request with a field that older gateways reject, and repeats it without the field for those."""
    if value is None:
        return (yield from ask(fields))
    try:
        return (yield from ask({**fields, name: value}))
    except Refused as error:
        if f"unknown field `{name}`" not in str(error):
            raise
        return (yield from ask(fields))


def checked(name: str, what: str) -> str:
    """Returns the name of a producer, driver or topic. Raises BadOption if it is empty or not a text."""
    if not isinstance(name, str) or not name:
        raise BadOption(
            f"the name of a {what} must be a text, the same in every run, not {name!r}; nothing was written"
        )
    return name


def registered(epoch: int | None) -> int:
    """Returns the epoch. Raises BadOption before the first registration: registering now would fence later attempts."""
    if epoch is None:
        raise BadOption(
            "not registered: use `with gateway.producer(…)` or `with gateway.driver(…)`; nothing was written"
        )
    return epoch


def _members(reply: Reply) -> dict[str, Any]:
    return dict(json.loads(reply.body))


def _driver_epoch(reply: Reply) -> DriverEpoch:
    document = json.loads(reply.body)
    return DriverEpoch(document["epoch"], document["batch"])


def _registered(reply: Reply) -> Registered:
    document = json.loads(reply.body)
    numbers = ("producer_id", "epoch", "lease_ms", "watermark", "claimed_to", "resume_after")
    done = tuple((first, last) for first, last in document["done"])
    return Registered(**{name: document[name] for name in numbers}, done=done, truncated=bool(document["truncated"]))


def _acked(reply: Reply) -> Acked:
    document = json.loads(reply.body)
    watermarks = {member["producer"]: member["watermark"] for member in document["watermarks"]}
    return Acked(watermarks, document["batch"], tuple(_refused(member) for member in document["refused"]))


def _refused(part: Mapping[str, Any]) -> RefusedPart:
    not_done = tuple((first, last) for first, last in part.get("not_done", ()))
    claims = tuple(part.get("claims", ()))
    return RefusedPart(part["code"], part["detail"], part.get("producer"), part.get("batch"), not_done, claims)


def _settled(reply: Reply) -> Settled:
    document = json.loads(reply.body)
    # No id is taken over: all of them are this attempt's, or the request was refused with FENCED.
    return Settled(document["state"], document["settled"], 0, document["lease_ms"], reply.began_ms)
