"""What a driver and a producer know of themselves, and how they ask, as steps. No I/O: both clients take them.

A producer writes one lane of a source, in order. Registering gives it an epoch, which no other attempt ever gets;
whatever an older epoch asks for afterwards is refused (FENCED). The driver owns the retries: it alone acks.
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

PAGE_INTERVALS = 1_000  # as many of each kind as one answer may have

SOURCE_ID = "source_id"

T = TypeVar("T")


class DriverCalls:
    """Owns the retries of some producers, under a token of its own."""

    def __init__(self, calls: Calls, name: str, token: str | None = None) -> None:
        self.name = checked(name, "driver")
        self.token = token or new_token()
        self.epoch: int | None = None
        self._calls = calls

    def register(self) -> Steps[DriverEpoch]:
        """Become the driver of this name, under a new epoch."""
        registered = yield from self._post("register", {"token": self.token}, _driver_epoch)
        self.epoch = registered.epoch
        return registered

    def ack(
        self, upto: Mapping[str, int], batch: int | None, topic: str | None = None, source_offsets: str | None = None
    ) -> Steps[Acked]:
        """Say that nobody retries these any more. Raises BadOption before registering, OlderBatch, Fenced."""
        if topic is None and source_offsets is not None:
            raise BadOption("source_offsets come with the topic that is written to; give topic; nothing was acked")
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
    """A producer as one attempt has it: token, epoch, the number of the next call, and the claims that are open."""

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
            raise BadOption(f"gaps is allow or refuse, not {gaps!r}; nothing was written")
        self._gaps, self._source_id = gaps, source_id
        self._calls = calls
        self._next = 0
        self._open: dict[int, ClaimedSequences] = {}

    def register(self) -> Steps[Registered]:
        """Wait while another attempt's lease lives: until it closes, dies, or is seen to hold on for too long."""
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
        """Claim sequences, strictly increasing. Raises BadId before anything is sent, Gap, OutOfOrder, Fenced."""
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
        """Complete a claim. Raises StillBusy where some sequences are not this attempt's."""
        yield from self.settle(claimed, "complete")
        if claimed.verdicts.unsettled:
            raise StillBusy(
                f"{claimed.verdicts.granted} sequences of producer {self.name} are written and completed; "
                f"{claimed.verdicts.unsettled} are not this attempt's, and are not known to be written"
            )

    def settle(self, claimed: ClaimedSequences, verb: str, timeout_ms: int | None = None) -> Steps[Settled | None]:
        """None where nothing was granted. Raises Fenced when a newer attempt has the producer."""
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
        """What is to be renewed while the granted rows are being written; None where nothing was granted."""
        if not claimed.verdicts.granted:
            return None
        fields = {"token": self.token, "epoch": registered(self.epoch), "call": claimed.call}

        def renew(calls: Calls, timeout_ms: int) -> Steps[Settled]:
            body, what = json.dumps(fields).encode(), f"renewal of producer {self.name}"
            request = calls.post(self._path("renew"), what, "whether the lease goes on", JSON, body)
            return calls.send(request, _settled, timeout_ms)

        return ClaimLease(f"producer {self.name}", claimed.began_ms, claimed.verdicts.lease_ms, renew)

    def close(self, timeout_ms: int | None = None) -> Steps[None]:
        """The lease ends now: what is open may be taken over at once. No effect before registering."""
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
        """Append rows, an Arrow stream, whose sequences are granted, written and done in one request.

        Raises PayloadConflict for sequences that are written with another payload, unless on_conflict is "drop".
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
        """Look up what is known of the producer, its intervals page by page."""
        path, what = f"/producers/{quote(self.name, safe='')}", f"look at producer {self.name}"
        explained = yield from self._calls.get(f"{path}?limit={PAGE_INTERVALS}", what, _members)
        while (after := explained.pop("next")) is not None:
            more = yield from self._calls.get(f"{path}?limit={PAGE_INTERVALS}&after={after}", what, _members)
            explained = {**more, "done": explained["done"] + more["done"], "open": explained["open"] + more["open"]}
        return explained

    def left(self, error: BaseException | None) -> None:
        """The attempt is left. Raises NotCompleted when something is open, or notes it on the error it is left with."""
        if not self._open:
            return
        count = sum(claimed.verdicts.granted for claimed in self._open.values())
        text = (
            f"producer {self.name} was left with {count} granted sequences neither completed nor released; "
            "unknown: whether they are written. The next attempt takes them over"
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
    """Asks with a field that an older gateway does not know, and without it there; None: it is left out."""
    if value is None:
        return (yield from ask(fields))
    try:
        return (yield from ask({**fields, name: value}))
    except Refused as error:
        if f"unknown field `{name}`" not in str(error):
            raise
        return (yield from ask(fields))


def checked(name: str, what: str) -> str:
    """Raises BadOption for what names nothing."""
    if not isinstance(name, str) or not name:
        raise BadOption(f"a {what} is named by a text, the same at every run, not {name!r}; nothing was written")
    return name


def registered(epoch: int | None) -> int:
    """Raises BadOption before the first registration: a late one would fence whoever came in between."""
    if epoch is None:
        raise BadOption("register first: `with gateway.producer(…)`, `with gateway.driver(…)` do; nothing was written")
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
    return Settled(
        document["state"], document["settled"], 0, document["lease_ms"], reply.began_ms
    )  # all of it, or Fenced
