"""One transaction of a lane: start, ask, write and commit, with a Kafka producer that is never reused.

Reusing it would be unsafe: librdkafka resends a commit whose reply is lost, and a broker that receives both may end the
*next* transaction of the same producer with the late one. A producer with a single transaction has no next one; its
successor's start ends its leftovers and fences it (KIP-98, KIP-890).

The transaction commits the rows with a record of the written sequences, which the gateway reads and stores:

    version u8 = 1 | ledger 16 bytes | lane u64 | spans u32 | each: first u64, last u64, both inclusive

Kafka's client reports some refusals only through callbacks. Those are raised too, and not retried if only the user can
fix them.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from oncegate_spark.errors import NOTHING, BadId, BadOption, Fenced, InDoubt, Outcome, Refused, SinkRefused, Unavailable
from oncegate_spark.kafka_client import hand_over, is_fenced, kafka_client
from oncegate_spark.protocol.answers import OpenedLane
from oncegate_spark.sync.gateway import Gateway

if TYPE_CHECKING:
    from confluent_kafka import Producer
import struct

from oncegate_spark.kafka_client import is_unknown

_RIGHTS = "`oncegate kafka plan --writer User:NAME --topic TOPIC` prints the ACLs that a writer needs"


class Heard:
    """Stores errors from one producer's callbacks: refused connections, and the first undelivered record."""

    def __init__(self, kafka: Any, topic: str, lane: OpenedLane, user: str) -> None:
        self._kafka = kafka
        self._topic, self._lane, self._user = topic, lane, user
        self._connection: Any = None
        self._record: Any = None

    def callbacks(self) -> dict[str, Any]:
        """Returns the callbacks as librdkafka settings; deliveries are reported only on error."""
        return {"error_cb": self._told, "on_delivery": self._undelivered}

    @property
    def why(self) -> str:
        """Error of the first undelivered record; empty if there is none."""
        return "" if self._record is None else f" ({self._record.str()})"

    def refusal(self, error: Any) -> Refused | None:
        """Returns the error if brokers refuse this user, from a call's error or a callback; None for other errors."""
        for heard in (error, self._record, self._connection):
            if heard is not None and (meaning := self._meaning(heard)):
                return Refused(f"{meaning} ({heard.str()}){NOTHING}")
        return None

    def _meaning(self, error: Any) -> str | None:
        if is_unknown(self._kafka, error):
            return f"brokers rejected the credentials of {self._user}"
        codes = self._kafka.KafkaError
        wanted = {
            codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: f"transactional id {self._lane.transactional_id}",
            codes.TOPIC_AUTHORIZATION_FAILED: f"topic {self._topic}, or topic {self._lane.topic}",
        }
        what = wanted.get(error.code())
        return None if what is None else f"{self._user} lacks Describe or Write on {what}: {_RIGHTS}"

    def _told(self, error: Any) -> None:
        # after a refusal brokers close the connection; the callback's last error is then that they are unreachable
        if self._meaning(error):
            self._connection = error

    def _undelivered(self, error: Any, _record: Any) -> None:
        self._record = self._record or error


_HEAD = struct.Struct(">B16sQI")
_SPAN = struct.Struct(">QQ")
_VERSION = 1
SPANS_MAX = 10_000  # the gateway's maximum


class CopiedSpans:
    """Collects strictly increasing sequences as inclusive spans."""

    def __init__(self) -> None:
        self.spans: list[list[int]] = []
        self.count = 0

    def __len__(self) -> int:
        return len(self.spans)

    def add(self, sequence: int) -> None:
        if self.spans and self.spans[-1][1] + 1 == sequence:
            self.spans[-1][1] = sequence
        else:
            self.spans.append([sequence, sequence])
        self.count += 1


def lane_record(ledger: bytes, lane: int, spans: Sequence[Sequence[int]]) -> bytes:
    """Encodes a record; at least one span, sorted and disjoint."""
    head = _HEAD.pack(_VERSION, ledger, lane, len(spans))
    return head + b"".join(_SPAN.pack(first, last) for first, last in spans)


# Timeout of an abort. Readers of the topic wait for an open transaction until it is aborted or times out.
_ABORT_S = 5.0
TIMEOUT_MS = 30_000  # timeout of each Kafka call; a coordinator that moves to another broker responds within seconds
TRANSACTION_MS = 60_000  # Kafka's default: the time that readers wait for the transaction of a dead writer
# librdkafka's timeouts of a record, which must not exceed the transaction's.
_DELIVERY = ("message.timeout.ms", "delivery.timeout.ms")
# Settings that make the transaction correct, and the partitioner, are not the caller's choice.
_OWN = {
    "transactional.id": "",
    "transaction.timeout.ms": "",
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",
    "delivery.report.only.error": True,
}


@dataclass(frozen=True)
class DirectRow:
    """One record for the topic. `sequence`: position in the source. `partition`: None for Kafka's choice by key."""

    sequence: int
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class LaneTransaction:
    """Writes rows of one lane in one transaction; a context manager that closes it.

    `config`: librdkafka settings, such as those for authentication. `transaction_ms`: as in `transaction_time`. After
    an error only `close` may be called.
    """

    def __init__(
        self,
        gateway: Gateway,
        target: tuple[str, str],
        lane: OpenedLane,
        config: Mapping[str, Any] | None = None,
        *,
        timeout_ms: int = TIMEOUT_MS,
        transaction_ms: int | None = None,
    ) -> None:
        self._kafka: Any = kafka_client("writing into Kafka")
        self._gateway, self._lane = gateway, lane
        self._topic, self._producer_name = target
        self._timeout_s = timeout_ms / 1000
        self._transaction_ms = transaction_time(transaction_ms, timeout_ms, config or {})
        self._started_ms = 0
        own = _OWN | {"transactional.id": lane.transactional_id, "transaction.timeout.ms": self._transaction_ms}
        self._config = {"bootstrap.servers": lane.brokers, "log_level": 0, **checked_config(config or {}), **own}
        self._heard = Heard(self._kafka, self._topic, lane, self._config.get("sasl.username", "the client"))
        self._producer: Producer | None = None
        self._topic_id: str | None = None
        self._written = CopiedSpans()
        self._last: int | None = None
        # Rows were added, and no commit was tried.
        self._is_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def start(self) -> None:
        """Starts the producer, which fences the lane's previous writer and ends its open transaction. Call it before
        `ask`.

        Raises Unavailable and Refused: nothing was written.
        """
        self._producer = self._kafka.Producer(self._config | self._heard.callbacks())
        try:
            self._producer.init_transactions(self._timeout_s)
            self._producer.begin_transaction()
            self._started_ms = self._gateway.clock.monotonic_ms()
        except self._kafka.KafkaException as raised:
            error = raised.args[0]
            with suppress(self._kafka.KafkaException):  # a fatal error is raised again
                self._producer.poll(0)  # runs the callbacks
            if refused := self._heard.refusal(error):
                raise refused from raised
            kind = Refused if error.fatal() and not is_fenced(self._kafka, error) else Unavailable
            raise kind(f"{self._what}: {error.str()}{NOTHING}") from raised

    def ask(self, first: int, last: int, acked: int | None = None) -> tuple[tuple[int, int], ...]:
        """Returns the written sequences from `first` to `last`, as inclusive spans in order; the others are to be
        written.

        `acked`: the source delivers no sequence up to this one again. A topic that was deleted and created again is
        refused.

        Raises Unavailable, Refused and errors of the gateway's calls: nothing was written.
        """
        assert self._producer is not None, "start() comes first, or another writer could write after the answer"
        if self._topic_id is None:
            self._topic_id = self._look_up_topic()
        return self._gateway.ask_lane(self._topic, self._producer_name, first, last, acked, self._topic_id or None)

    def _look_up_topic(self) -> str:
        """Returns Kafka's current id of the topic; empty if it does not exist, or brokers are older than 2.8.

        Raises Unavailable and Refused.
        """
        own = {name: value for name, value in self._config.items() if name not in (*_OWN, *_DELIVERY)}
        admin = self._kafka.admin.AdminClient(own | {"error_cb": self._heard.callbacks()["error_cb"]})
        topics = self._kafka.TopicCollection([self._topic])
        try:
            described = admin.describe_topics(topics, request_timeout=self._timeout_s)[self._topic].result()
        except self._kafka.KafkaException as raised:
            error = raised.args[0]
            if error.code() == self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                return ""
            if refused := self._heard.refusal(error):
                raise refused from raised
            raise Unavailable(f"{self._what}: {error.str()}{NOTHING}") from raised
        return topic_id_text(described.topic_id)

    def add(self, rows: Iterable[DirectRow]) -> None:
        """Adds rows with increasing sequences that `ask` did not return. Raises BadId, Refused, SinkRefused: nothing is
        written.
        """
        for row in rows:
            if self._last is not None and row.sequence <= self._last:
                raise BadId(
                    f"sequence {row.sequence} of {self._producer_name} follows {self._last}: they must "
                    f"increase{NOTHING}"
                )
            if row.timestamp_ms == 0:
                raise Refused(
                    f"sequence {row.sequence} of {self._producer_name} has timestamp 0, which Kafka's client replaces "
                    "by "
                    f"the current time: set another timestamp, or none{NOTHING}"
                )
            self._last = row.sequence
            self._written.add(row.sequence)
            if len(self._written) > SPANS_MAX:
                raise Refused(
                    f"{self._what}: more than {SPANS_MAX} gaps in one transaction: write fewer rows at a time, or "
                    "write "
                    f"by ids{NOTHING}"
                )
            self._produce(row)

    def _produce(self, row: DirectRow) -> None:
        assert self._producer is not None
        fields: dict[str, Any] = {} if row.partition is None else {"partition": row.partition}
        if row.timestamp_ms is not None:
            fields["timestamp"] = row.timestamp_ms
        fields |= {"value": row.value, "key": row.key, "headers": list(row.headers) or None}
        self._is_open = True
        try:
            hand_over(self._producer, self._topic, **fields)
        except self._kafka.KafkaException as raised:
            raise self._failed(raised) from raised

    def commit(self) -> int:
        """Commits the rows with their record; returns their number. Without rows nothing is committed.

        Raises SinkRefused, or Refused if the user lacks an ACL: it was aborted, and nothing is written. Raises Fenced
        if a later writer owns the lane. Raises InDoubt if only the next start and `ask` reveal whether it was
        committed.
        """
        assert self._producer is not None
        if not self._written.count:
            return 0
        record = lane_record(self._lane.ledger, self._lane.lane, self._written.spans)
        try:
            # Rows first: while the record is uncommitted, questions about lanes of its partition have to wait.
            if left := self._producer.flush(self._timeout_s):
                raise SinkRefused(f"{self._what}: {left} rows were not accepted in {self._timeout_s:.0f} s{NOTHING}")
            self._producer.produce(self._lane.topic, record, partition=self._lane.partition)
            self._is_open = False
            self._producer.commit_transaction(self._timeout_s)
        except self._kafka.KafkaException as raised:
            raise self._failed(raised) from raised
        return self._written.count

    def close(self) -> None:
        """Discards the producer, and aborts the transaction unless a commit was attempted.

        After an attempted commit, the lane's next start ends the transaction.
        """
        if self._producer is not None:
            self._producer.purge()
            if self._is_open:
                with suppress(self._kafka.KafkaException):  # for instance after a newer writer's start ended it
                    self._producer.abort_transaction(_ABORT_S)
            self._producer = None

    def _failed(self, raised: Any) -> Exception:
        """Returns the exception for an error of Kafka."""
        error = raised.args[0]
        what = f"{self._what}: {error.str()}"
        if is_fenced(self._kafka, error):
            if self._open_ms >= self._transaction_ms:
                limit = f"brokers abort a transaction after {self._transaction_ms} ms: {self._longer}"
                what = f"{what}: it was open for {self._open_ms} ms, and {limit}"
                if self._is_open:
                    return SinkRefused(f"{what}, or write fewer rows at a time{NOTHING}")
            return Fenced(
                f"{what}: a later writer owns this lane and decides whether it is written", outcome=Outcome.UNKNOWN
            )
        # Before a commit is tried nothing can be committed, whatever the error, for instance a record that is too
        # large.
        if error.txn_requires_abort() or self._is_open:
            self._is_open = True
            return self._heard.refusal(error) or SinkRefused(f"{what}{self._heard.why}; it was aborted{NOTHING}")
        return InDoubt(f"{what}; unknown: whether it is committed; write the same rows again")

    @property
    def _open_ms(self) -> int:
        return self._gateway.clock.monotonic_ms() - self._started_ms

    @property
    def _longer(self) -> str:
        """The options to write for a longer transaction, in Spark and in Python."""
        longer = 2 * max(self._open_ms, self._transaction_ms)
        return f'write .option("transactionMs", "{longer}") (DirectWriter: transaction_ms={longer})'

    @property
    def _what(self) -> str:
        return f"transaction of {self._lane.transactional_id} on topic {self._topic}"


def checked_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the settings. Raises BadOption for settings that the lane reserves."""
    if own := sorted(set(config) & set(_OWN)):
        raise BadOption(f"{', '.join(own)}: the lane sets it itself; omit it{NOTHING}")
    return config


def transaction_time(given_ms: int | None, timeout_ms: int, config: Mapping[str, Any]) -> int:
    """Returns the transaction timeout: as given, else 60 s or, if longer, the longest timeout of a commit.

    `timeout_ms`: of each Kafka call. `config`: librdkafka settings, including the timeouts of a record. Raises
    BadOption if the given time is shorter than one of these: brokers would abort a transaction that is still being
    committed.
    """
    times = {"timeout_ms": timeout_ms, **{name: _milliseconds(name, config) for name in _DELIVERY if name in config}}
    name, longest_ms = max(times.items(), key=lambda entry: entry[1])
    if given_ms is None:
        return max(TRANSACTION_MS, longest_ms)
    if given_ms < longest_ms:
        raise BadOption(
            f"a transaction timeout of {given_ms} ms is shorter than its commit may take ({name} is {longest_ms}): "
            "write "
            f'.option("transactionMs", "{longest_ms}") (DirectWriter: transaction_ms={longest_ms}), or lower '
            f"{name}{NOTHING}"
        )
    return given_ms


def _milliseconds(name: str, config: Mapping[str, Any]) -> int:
    text = str(config[name]).strip()
    if not text.isascii() or not text.isdigit():
        raise BadOption(f"{name} is {text!r}; it must be a whole number of milliseconds{NOTHING}")
    return int(text)


def topic_id_text(topic_id: Any) -> str:
    """Returns a topic's id in base64url, as Kafka's tools print it (the client's text is base64);
    empty if it has none.
    """
    halves = topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()
    raw = b"".join((half % (1 << 64)).to_bytes(8, "big") for half in halves)
    return urlsafe_b64encode(raw).rstrip(b"=").decode() if any(raw) else ""
