# Generated from oncegate_spark/aio/producers.py by scripts/unasync.py; do not edit.
"""Writes one lane (numbered stream) of a source in order; a driver acks the sequences that are never retried.

with Gateway("http://gateway:8080", namespace="mail") as gateway:
    with gateway.producer("events-3", driver="load") as producer:  # waits for another attempt's live lease
        claimed = producer.claim([17, 18, 20])  # then prev_sequence=20
        send(claimed.granted)  # returns when it is durable
        producer.complete(claimed)
    with gateway.driver("load") as driver:  # once these sequences are never retried
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
    """Driver of some producers: acks the sequences and batches that will never be retried.

    The newest registration is the driver; acks of an older one raise Fenced.
    """

    def __init__(self, gateway: Runner, name: str, token: str | None = None) -> None:
        self.gateway = gateway
        self._calls = DriverCalls(gateway.calls, name, token)

    @property
    def token(self) -> str:
        """Token that identifies this driver to the gateway: random, unless the caller chose one."""
        return self._calls.token

    @property
    def epoch(self) -> int | None:
        """Number of this registration, greater than all earlier ones; None until registered."""
        return self._calls.epoch

    def __enter__(self) -> Self:
        self.register()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Does nothing: a driver stays registered until the next one registers."""

    def register(self) -> DriverEpoch:
        """Registers as the driver of this name; acks of an older driver raise Fenced from then on."""
        return self.gateway.run(self._calls.register())

    def ack(
        self,
        upto: Mapping[str, int],
        batch: int | None = None,
        topic: str | None = None,
        source_offsets: str | None = None,
    ) -> Acked:
        """Acks sequences and batches that will never be retried: they become STALE permanently, and are forgotten.

        Args:
            upto: the last sequence of each producer
            batch: ids claimed under this driver and this or an earlier batch are forgotten too
            topic: the topic that is written to
            source_offsets: any text from which the source can be resumed after all this; `source_offsets` of the
                gateway returns it. Omitting it clears the stored text

        Each producer and each batch is acked on its own: parts with claimed but unfinished work are returned in
        `refused`, and the others are acked. Raises OlderBatch for a batch before the last, and Fenced under an older
        driver; then nothing is acked.
        """
        return self.gateway.run(self._calls.ack(upto, batch, topic, source_offsets))


class Producer:
    """Writes one lane of a source in order, as one attempt with its own token and epoch.

    Its context registers it, waiting while another attempt holds a live lease, and closes it, so that the next attempt
    need not wait. It never completes a claim itself, since only the caller knows what was written.
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
        """Name of the producer: the same in every run, for one lane of one source."""
        return self._calls.name

    @property
    def token(self) -> str:
        """Token of this attempt: 32 hexadecimal digits, unless the caller chose one."""
        return self._calls.token

    @property
    def epoch(self) -> int | None:
        """Number of this registration, greater than all earlier ones; None until registered."""
        return self._calls.epoch

    def __enter__(self) -> Self:
        self.register()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._calls.left(error)
        finally:
            with suppress(OncegateError):  # the lease expires by itself
                self.close()

    def register(self) -> Registered:
        """Registers as the producer of this name under a new epoch, and returns its progress. Waits for another live
        lease.

        Raises ProducerBusy if the other attempt is still active at its lease + 50 % after its last renewal.
        """
        return self.gateway.run(self._calls.register())

    def claim(
        self, sequences: Sequences, *, prev_sequence: int | None = None, lease_ms: int | None = None
    ) -> ClaimedSequences:
        """Claims strictly increasing sequences; dropped ones are done, whoever wrote them.

        `prev_sequence`: the source has nothing between it and the first of these. Raises Gap if it was never claimed
        itself, OutOfOrder for a sequence below a claimed one that was never claimed, and Fenced if a newer attempt owns
        the producer; then nothing is granted.
        """
        return self.gateway.run(self._calls.claim(sequences, prev_sequence, lease_ms))

    @contextmanager
    def holding(self, claimed: ClaimedSequences) -> Iterator[None]:
        """Renews the lease from a thread while the block runs: every third of it, for at most ten leases."""
        with renewal(self.gateway, self._calls.held(claimed)):
            yield

    def held(self, claimed: ClaimedSequences) -> ClaimLease | None:
        """Returns the lease that `holding` renews; None if nothing was granted."""
        return self._calls.held(claimed)

    def complete(self, claimed: ClaimedSequences) -> None:
        """Completes the claim: everything granted is written. Raises Fenced if a newer attempt owns the producer."""
        self.gateway.run(self._calls.complete(claimed))

    def settle(self, claimed: ClaimedSequences, verb: str) -> Settled | None:
        """Renews, completes or releases the claim; `verb` is "renew", "complete" or "release".

        Returns None if nothing was granted.
        """
        return self.gateway.run(self._calls.settle(claimed, verb))

    def release(self, claimed: ClaimedSequences) -> None:
        """Releases the claim: nothing granted was written, nor ever will be."""
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
        """Appends rows (an Arrow stream) to a topic; those whose sequence is GRANTED are written and completed in one
        step.

        `digest_cols`: columns of the payload of a row's sequence. Sequences written with another payload and not yet
        acked raise PayloadConflict; with on_conflict="drop" they are logged and dropped.
        """
        arguments = (sequence_col, prev_sequence, key_col, digest_cols, on_conflict)
        return self.gateway.run(self._calls.produce(topic, body, *arguments))

    def close(self, timeout_ms: int | None = None) -> None:
        """Ends the lease, so that the next attempt may register at once."""
        self.gateway.run(self._calls.close(timeout_ms))

    def explain(self) -> dict[str, Any]:
        """Returns everything that the gateway knows about the producer: epoch, holder, lease, watermark, claimed and
        completed sequences.
        """
        return self.gateway.run(self._calls.explain())
