"""Handles producers, drivers and lanes over gRPC: register, ack, open a lane, look up its sequences."""

from collections.abc import Iterable, Sequence
from typing import Any

from oncegate.core.errors import BadRequest, OncegateError
from oncegate.core.producers import Gaps
from oncegate.engine.producer_requests import AckRequest, DriverRequest, ProducerRequest
from oncegate.transports.decode import sequences
from oncegate.transports.grpc import gateway_pb2 as pb
from oncegate.transports.grpc.calls import GrpcMethod
from oncegate.transports.grpc.fields import given, number, optional_number, sized
from oncegate.transports.incoming import Admitted
from oncegate.transports.writes import lane_question, source_of_ack

_GAPS = {pb.GAPS_UNSPECIFIED: Gaps.ALLOW, pb.GAPS_ALLOW: Gaps.ALLOW, pb.GAPS_REFUSE: Gaps.REFUSE}


async def register_producer(message: pb.RegisterProducerRequest, admitted: Admitted) -> pb.RegisterProducerResponse:
    """Registers this attempt as a producer's holder under a new epoch; returns the producer's state."""
    if message.gaps not in _GAPS:
        raise BadRequest(f"gaps: there is no {message.gaps}; nothing was changed")
    token, lease_ms = sized(message.token, "token"), given(message, "lease_ms")
    gaps, source_id = _GAPS[message.gaps], given(message, "source_id")
    request = ProducerRequest(message.producer, token, message.driver, lease_ms, gaps, admitted.sender, source_id)
    result = await admitted.namespace.producers.register(request, admitted.deadline)
    return pb.RegisterProducerResponse(
        producer=message.producer,
        producer_id=result.producer_id,
        epoch=result.epoch,
        lease_ms=result.lease_ms,
        watermark=result.watermark,
        claimed_to=result.claimed_to,
        resume_after=result.resume_after,
        done=_intervals(result.done.tolist()),
        truncated=result.truncated,
    )


async def register_driver(message: pb.RegisterDriverRequest, admitted: Admitted) -> pb.RegisterDriverResponse:
    """Registers a driver as the owner of its producers' retries."""
    request = DriverRequest(message.driver, sized(message.token, "token"))
    result = await admitted.namespace.drivers.register(request, admitted.deadline)
    return pb.RegisterDriverResponse(driver=message.driver, epoch=result.epoch, batch=result.batch)


async def ack(message: pb.AckRequest, admitted: Admitted) -> pb.AckResponse:
    """Acknowledges sequences and batches that are never retried. Each part takes effect or is refused on its own."""
    upto = tuple((one.producer, one.sequence) for one in message.upto)
    sequences.of_numbers([sequence for _, sequence in upto], "sequence")
    token, epoch, batch = (
        sized(message.token, "token"),
        number(message.epoch, "epoch"),
        optional_number(message, "batch"),
    )
    limits = admitted.gateway.limits
    source = source_of_ack(given(message, "topic"), given(message, "source_offsets"), limits)
    request = AckRequest(message.driver, epoch, token, upto, batch, *source)
    result = await admitted.namespace.drivers.ack(request, admitted.deadline)
    return pb.AckResponse(
        driver=message.driver,
        watermarks=[pb.Watermark(producer=name, watermark=watermark) for name, watermark in result.watermarks],
        batch=result.batch,
        refused=map(_refused, result.refused),
    )


async def open_lane(message: pb.OpenLaneRequest, admitted: Admitted) -> pb.OpenLaneResponse:
    """Opens a lane: the numbered stream in which a client writes a producer's rows directly to a Kafka topic.
    Idempotent.
    """
    source_id = given(message, "source_id")
    opened = await admitted.namespace.direct.open(message.topic, message.producer, admitted.deadline, source_id)
    place = opened.place
    return pb.OpenLaneResponse(
        producer=message.producer,
        lane=opened.lane,
        ledger=place.ledger,
        brokers=place.brokers,
        topic=place.topic,
        partition=place.partition,
        transactional_id=place.transactional_id,
    )


async def ask_lane(message: pb.AskLaneRequest, admitted: Admitted) -> pb.AskLaneResponse:
    """Returns which sequences of a lane are written."""
    span, acked, topic_id = (message.first, message.last), given(message, "acked"), given(message, "topic_id")
    question = lane_question(message.topic, message.producer, span, acked, topic_id)
    answer = await admitted.namespace.direct.ask(question, admitted.deadline)
    return pb.AskLaneResponse(producer=message.producer, duplicates=_intervals(answer.duplicates.tolist()))


def _refused(error: OncegateError) -> pb.RefusedPart:
    extra: Any = dict(error.extra)
    not_done = _intervals(extra.pop("not_done", ()))
    return pb.RefusedPart(code=error.code, action=error.action, detail=error.detail, not_done=not_done, **extra)


def _intervals(pairs: Iterable[Sequence[int]]) -> list[pb.Interval]:
    return [pb.Interval(first=first, last=last) for first, last in pairs]


METHODS: dict[str, GrpcMethod] = {
    "RegisterProducer": GrpcMethod(pb.RegisterProducerRequest, register_producer, "registerProducer"),
    "RegisterDriver": GrpcMethod(pb.RegisterDriverRequest, register_driver, "registerDriver"),
    "Ack": GrpcMethod(pb.AckRequest, ack, "ackProducers"),
    "OpenLane": GrpcMethod(pb.OpenLaneRequest, open_lane, "openLane"),
    "AskLane": GrpcMethod(pb.AskLaneRequest, ask_lane, "askLane"),
}
