"""What operators do by hand: each operation's part of the OpenAPI document, with its examples and descriptions."""

from typing import Any

from oncegate.core import errors as e
from oncegate.transports.http import messages
from oncegate.transports.http.openapi import parts
from oncegate.transports.http.openapi.examples import TOKEN
from oncegate.transports.http.openapi.examples_producers import PRODUCER
from oncegate.transports.http.openapi.operations import NS
from oncegate.transports.http.openapi.parts import answer, message, operation, reading, writes

_NOTE = {"who": "ada", "why": "its rows were lost with a disk, see ticket 4711"}
_ACTION: dict[str, Any] = {
    "position": 4711,
    "wall_ms": 1_795_219_200_123,
    "action": "forget",
    "subject": "ids of set 'orders'",
    "changed": 2,
    "who": "operator (ada)",
    "why": _NOTE["why"],
}
_GATEWAY = {"draining": True, **_NOTE, "open": {"default": {"open_claims": 2}}}

_KNOWN: parts.Json = {
    "schema": {
        "type": "string",
        "format": "binary",
        "description": "one Arrow IPC stream, as `oncegate export` writes its rows: id (fixed_size_binary(16)), owner "
        "(fixed_size_binary(16), null where it is done), digest (uint32, null without a payload)",
    }
}
FORGET = operation(
    "forgetIds",
    {
        200: answer(
            "how many were known; whoever writes one of them next is granted it. None is forgotten where one is held",
            json=message(messages.ForgetReply, {"forgotten": 2}),
        )
    },
    (*parts.BODIES, e.NullId, e.LeaseLive),
    writes(NS),
    parts.body(json=message(messages.ForgetRequest, {"ids": ["a-1", "a-2"], "id_set": "orders", **_NOTE})),
)
FORGET_ALL = operation(
    "forgetIdSet",
    {
        200: answer(
            "none of its ids is known any more, also of those that have left memory; topics of Kafka that it was "
            "written to may be other ones from now on",
            json=message(messages.ForgetAllReply, {"id_set": "orders", "times": 1}),
        )
    },
    parts.BODIES,
    writes(NS),
    parts.body(
        json=message(messages.ForgetAllRequest, {"id_set": "orders", "confirm": "orders", "token": TOKEN, **_NOTE})
    ),
)
IMPORT = operation(
    "importIds",
    {
        200: answer(
            "how many were new; done ids are done here, taken ids their owner's. All of them, or none",
            json=message(messages.ImportReply, {"imported": 2}),
        )
    },
    (*parts.BODIES, e.LeaseLive),
    [*writes(NS), *parts.query(messages.ImportQuery, **_NOTE)],
    parts.body(arrow=_KNOWN),
)
FENCE = operation(
    "fenceProducer",
    {
        200: answer(
            "who held the producer is FENCED; the next attempt registers at once",
            json=message(messages.FenceReply, {"producer": PRODUCER, "epoch": 8}),
        )
    },
    (*parts.BODIES, e.UnknownProducer),
    writes(NS, "producer"),
    parts.body(json=message(messages.FenceRequest, _NOTE)),
)
NOTE = operation(
    "noteAction",
    {
        200: answer(
            "it stands in the trail, with 0 as what it has changed", json=message(messages.NoteReply, {"who": "ada"})
        )
    },
    (*parts.BODIES,),
    writes(NS),
    parts.body(
        json=message(
            messages.NoteRequest, {"action": "replay", "subject": "topic orders, from orders.parquet", **_NOTE}
        )
    ),
)
AUDIT = operation(
    "getAudit",
    {
        200: answer(
            "what operators did, the newest first",
            json=message(messages.AuditReply, {"actions": [_ACTION], "next": 4711}),
        )
    },
    parts.READS,
    [*reading(NS), *parts.query(messages.AuditQuery, limit=100, before=4712)],
)
GATEWAY = operation(
    "getGateway",
    {200: answer("whether it is drained", marked=False, json=message(messages.GatewayReply, _GATEWAY))},
    (*parts.EVERY, e.Recovering),
)
DRAIN = operation(
    "drainGateway",
    {
        200: answer(
            "new work is answered STOPPING and the gateway is not ready, until it is told otherwise or starts anew",
            marked=False,
            json=message(messages.GatewayReply, _GATEWAY),
        )
    },
    (*parts.BODIES,),
    [parts.TIMEOUT],
    parts.body(json=message(messages.DrainRequest, {"draining": True, **_NOTE})),
)

_SUMMARY: dict[str, Any] = {
    "producer": PRODUCER,
    "driver": "load",
    "epoch": 7,
    "claimed_to": 20,
    "watermark": 16,
    "unacked": 4,
    "lease_left_ms": 12_345,
}
_LEFT: dict[str, Any] = {
    "claim": "6bvfkpf15rar6y6at2q28d7gwx",
    "token": TOKEN,
    "call": 0,
    "ids": 2,
    "over_ms": 60_000,
    "wall_ms": 1_795_219_200_123,
}
_OVERVIEW = parts.query(messages.OverviewQuery, limit=20)
PRODUCERS = operation(
    "listProducers",
    {
        200: answer(
            "producers, that which was active last first",
            json=message(messages.ProducersReply, {"producers": [_SUMMARY], "total": 1}),
        )
    },
    parts.READS,
    [*reading(NS), *_OVERVIEW],
)
LEFT_CLAIMS = operation(
    "listLeftClaims",
    {
        200: answer(
            "open claims whose lease is over: whether their ids are written is in doubt; the longest first",
            json=message(messages.LeftClaimsReply, {"claims": [_LEFT], "total": 1}),
        )
    },
    parts.READS,
    [*reading(NS), *_OVERVIEW],
)
CONSOLE = operation("getConsole", {}, parts.PUBLIC)
