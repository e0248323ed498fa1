# Generated from oncegate_spark/aio/producers.py by scripts/unasync.py; do not edit.
"""Writes one lane of a source in order, as a producer, under a driver that owns its retries.

with Gateway("http://gateway:8080", namespace="mail") as gateway:
    with gateway.producer("events-3", driver="load") as producer:  # waits while another attempt's lease lives
        claimed = producer.claim([17, 18, 20])  # the next one says prev_sequence=20
        send(claimed.granted)  # returns when it is durable
        producer.complete(claimed)
    with gateway.driver("load") as driver:  # once nobody retries them any more
        driver.ack({"events-3": 20})
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

from oncegate_spark.errors import OncegateError
from oncegate_spark.protocol.answers import Acked, ClaimedSequences, DriverEpoch, Produced, Registered, Settled
from oncegate_spark.protocol.calls.lease import ClaimLease
from oncegate_spark.protocol.calls.producers import DriverCalls, ProducerCalls
from oncegate_spark.protocol.columns import Columns
from oncegate_spark.protocol.sequences import Sequences
from oncegate_spark.sync.lease import renewal
from oncegate_spark.sync.runner import Runner


class Driver:
    """Owns the retries of its producers. The newest registration is the driver; an older one's acks are Fenced."""

    def __init__(self, gateway: Runner, name: str, token: str | None = None) -> None:
        self.gateway = gateway
        self._calls = DriverCalls(gateway.calls, name, token)

    @property
    def token(self) -> str:
        """What the gateway knows this driver by: random, unless one was given."""
        return self._calls.token

    @property
    def epoch(self) -> int | None:
        """The number of its registration, greater than any before; None before it is registered."""
        return self._calls.epoch

    def __enter__(self) -> Self:
        self.register()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Nothing to end: a driver is one until the next registers."""

    def register(self) -> DriverEpoch:
        """Become the driver of this name; an older one's acks are Fenced from then on."""
        return self.gateway.run(self._calls.register())

    def ack(
        self,
        upto: Mapping[str, int],
        batch: int | None = None,
        topic: str | None = None,
        source_offsets: str | None = None,
    ) -> Acked:
        """Say that nobody retries these any more: they are STALE for ever, and forgotten.

        `upto`: the last sequence of each producer.

        `batch`: ids that were claimed under this driver and batch (or an earlier one) are forgotten too. Each producer
        and each batch is a part: what is claimed and not done is told in `refused`, and the others are acked. Raises
        OlderBatch for a batch before the last, Fenced under an older driver: then nothing is acked.

        `topic`, `source_offsets`: what is written to, and where its source is to be read on behind all this, any text;
        the gateway's `source_offsets` gives it back. Without the text it is not known any more.
        """
        return self.gateway.run(self._calls.ack(upto, batch, topic, source_offsets))


class Producer:
    """Writes one lane of a source in order, as one attempt, under a token and an epoch of its own.

    As a context manager it registers, waiting while another attempt's lease lives, and closes: then the next attempt
    need not wait for the lease. It completes nothing by itself, because only its user knows what was written.
    """

    def __init__(
        self,
        gateway: Runner,
        name: str,
        *,
        driver: str,
        token: str | None = None,
        lease_ms: int | None = None,
        gaps: str = "allow",
        source_id: str | None = None,
    ) -> None:
        self.gateway = gateway
        self._calls = ProducerCalls(gateway.calls, name, driver, token, lease_ms, gaps, source_id)

    @property
    def name(self) -> str:
        """The name it was made with: the same at every run, for one lane of one source."""
        return self._calls.name

    @property
    def token(self) -> str:
        """The name of this attempt: 32 hexadecimal digits, unless one was given."""
        return self._calls.token

    @property
    def epoch(self) -> int | None:
        """The number of its registration, greater than any before; None before it is registered."""
        return self._calls.epoch

    def __enter__(self) -> Self:
        self.register()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._calls.left(error)
        finally:
            with suppress(OncegateError):  # the lease ends by itself
                self.close()

    def register(self) -> Registered:
        """Become the producer of this name, under a new epoch; where it stands. Waits while another's lease lives.

        Raises ProducerBusy when the other renews for longer than is waited for: lease + 50 % after its last renewal.
        """
        return self.gateway.run(self._calls.register())

    def claim(
        self, sequences: Sequences, *, prev_sequence: int | None = None, lease_ms: int | None = None
    ) -> ClaimedSequences:
        """Ask which of these may be written; strictly increasing. What is dropped is done, by whomever.

        `prev_sequence` says that the source holds nothing between it and the first of these. Raises Gap when it was
        never claimed itself, OutOfOrder for what lies below a claimed one and was never claimed, Fenced when a newer
        attempt has the producer: nothing is granted then.
        """
        return self.gateway.run(self._calls.claim(sequences, prev_sequence, lease_ms))

    @contextmanager
    def holding(self, claimed: ClaimedSequences) -> Iterator[None]:
        """Renew the lease while the block runs, from a thread, at a third of it and for ten leases at most."""
        with renewal(self.gateway, self._calls.held(claimed)):
            yield

    def held(self, claimed: ClaimedSequences) -> ClaimLease | None:
        """What `holding` renews; None where nothing was granted."""
        return self._calls.held(claimed)

    def complete(self, claimed: ClaimedSequences) -> None:
        """Say that everything granted is written. Raises Fenced when a newer attempt has the producer."""
        self.gateway.run(self._calls.complete(claimed))

    def settle(self, claimed: ClaimedSequences, verb: str) -> Settled | None:
        """`verb` is renew, complete or release; None where nothing was granted."""
        return self.gateway.run(self._calls.settle(claimed, verb))

    def release(self, claimed: ClaimedSequences) -> None:
        """Say that nothing granted was, or ever will be, handed to the place it is written to."""
        self.settle(claimed, "release")

    def produce(
        self,
        topic: str,
        body: bytes | memoryview,
        *,
        sequence_col: str,
        prev_sequence: int | None = None,
        key_col: Columns = (),
        digest_cols: Columns = (),
        on_conflict: str = "fail",
    ) -> Produced:
        """Append rows (an Arrow stream) to a topic; those whose sequence is GRANTED are written and done in one step.

        digest_cols: the columns that are the payload of a row's sequence. Sequences that are written with another one
        raise PayloadConflict, until they are acked; with on_conflict="drop" they are logged and dropped.
        """
        arguments = (sequence_col, prev_sequence, key_col, digest_cols, on_conflict)
        return self.gateway.run(self._calls.produce(topic, body, *arguments))

    def close(self, timeout_ms: int | None = None) -> None:
        """End the lease: the next attempt may register at once."""
        self.gateway.run(self._calls.close(timeout_ms))

    def explain(self) -> dict[str, Any]:
        """What is known of the producer: epoch, holder, lease, watermark, what is claimed and done."""
        return self.gateway.run(self._calls.explain())
