"""Lanes over gRPC: the opening, the sequences reported as written, and acks."""

from types import SimpleNamespace
from typing import Any

import pytest

from oncegate.core.entries.kinds import IdentifiedBy
from oncegate.core.errors import BadRequest, TopicReplaced
from oncegate.transports.grpc import gateway_pb2 as pb
from oncegate.transports.grpc.producers import ask_lane, open_lane
from tests.support.direct_records import LEDGER, DirectLanes, direct_lanes


def admitted(lane: DirectLanes) -> Any:
    return SimpleNamespace(namespace=lane.served.namespace, deadline=lane.served.deadline())


def ask_request(first: int, last: int, **more: Any) -> pb.AskLaneRequest:
    return pb.AskLaneRequest(namespace="default", topic="t", producer="p", first=first, last=last, **more)


async def test_a_lane_is_opened_asked_and_acked() -> None:
    async with direct_lanes() as lane:
        opened = await open_lane(pb.OpenLaneRequest(topic="t", producer="p"), admitted(lane))
        assert (opened.lane, opened.ledger, opened.transactional_id) == (1, LEDGER, "p.default/1/direct/1")
        lane.records.commit(1, (0, 0), (4, 4), (8, 9))

        async def told(first: int, last: int, **more: int) -> list[tuple[int, int]]:
            reply = await ask_lane(ask_request(first, last, **more), admitted(lane))
            return [(one.first, one.last) for one in reply.duplicates]

        assert await told(0, 9) == [(0, 0), (4, 4), (8, 9)]
        assert await told(1, 9, acked=0) == [(4, 4), (8, 9)], "the first sequence may be acked too"
        assert await told(5, 9, acked=4) == [(8, 9)]
        assert await told(0, 9) == [(0, 4), (8, 9)]
        with pytest.raises(BadRequest, match="that is as high was written"):
            await told(99, 99, acked=98)


@pytest.mark.parametrize("topic_id", ["", "A" * 21, "A" * 23, "A" * 21 + "B", "A" * 21 + "+"])
async def test_an_invalid_topic_id_is_refused_and_nothing_is_recorded(topic_id: str) -> None:
    async with direct_lanes() as lane:
        with pytest.raises(BadRequest, match="22 characters of base64url"):
            await ask_lane(ask_request(1, 2, topic_id=topic_id), admitted(lane))
        assert lane.disk.kinds() == []


async def test_a_topic_that_was_created_again_is_refused_by_its_id() -> None:
    async with direct_lanes() as lane:
        await ask_lane(ask_request(1, 2, topic_id="A" * 21 + "Q"), admitted(lane))
        lane.records.commit(1, (1, 2))
        with pytest.raises(TopicReplaced, match="topic t was deleted and made again"):
            await ask_lane(ask_request(1, 2, topic_id="A" * 21 + "g"), admitted(lane))
        assert lane.served.shard.journal.index.id_sets.topic_id(IdentifiedBy.LANE, "p", "t") == bytes(15) + b"\x01"
