"""Types of members that several messages share, and the base class of requests. The OpenAPI schemas are built of them.

Identifiers on the wire: token and nonce 32 hex digits, claim 26 characters of Crockford's base32, digests and
fingerprints hex. Unknown members are refused, so that a misspelt option is an error and not a default.
"""

from typing import Annotated

from msgspec import Meta, Struct

from oncegate.core.producers import SEQUENCE_MAX
from oncegate.engine.limits import Limits
from oncegate.transports.decode.ids import Id
from oncegate.transports.decode.names import TOPIC, TOPIC_ID
from oncegate.transports.decode.payloads import Payload


def _hex(digits: int, description: str) -> Meta:
    """Returns a pattern for the OpenAPI document only: `identifiers` parses the value, with better error messages."""
    pattern = f"^(-*[0-9a-fA-F]){{{digits}}}-*$"
    return Meta(description=description, extra_json_schema={"pattern": pattern})


Token = Annotated[str, _hex(32, "128 random bits as 32 hex digits, dashes allowed: one per attempt")]
Hex32 = Annotated[str, _hex(32, "16 bytes as 32 hex digits")]
Hex64 = Annotated[str, _hex(64, "32 bytes as 64 hex digits")]
TopicId = Annotated[
    str,
    Meta(
        extra_json_schema={"pattern": f"^{TOPIC_ID.pattern}$"},
        description="Kafka's id of the topic, as `kafka-topics.sh --describe` shows it: 16 bytes as 22 characters of "
        "base64url",
    ),
]
_DEFAULTS = Limits()
# Marks bounds that are configurable: the document shows the default, and the name under which `/v1/limits` returns the
# configured one.
IN_FORCE = "x-oncegate-limits"
LEASE_BOUNDS = {
    "minimum": _DEFAULTS.lease_ms_min,
    "maximum": _DEFAULTS.lease_ms_max,
    IN_FORCE: {"minimum": "lease_ms_min", "maximum": "lease_ms_max"},
}
Named = Annotated[
    str,
    Meta(
        extra_json_schema={"minLength": 1, "maxLength": _DEFAULTS.name_bytes, IN_FORCE: {"maxLength": "name_bytes"}},
    ),
]
Topic = Annotated[str, Meta(extra_json_schema={"pattern": f"^{TOPIC.pattern}$"})]
_U32_MAX, _OFFSET_MAX = 2**32 - 1, 2**63 - 1
U32 = Annotated[int, Meta(ge=0, le=_U32_MAX)]
# For the document only: the engine checks it, by the limits in force.
Lease = Annotated[int, Meta(extra_json_schema=LEASE_BOUNDS)]
Offset = Annotated[int, Meta(ge=0, le=_OFFSET_MAX)]
# Minimum and maximum of numbers in headers, for the parser and the document.
HEADER_NUMBERS = {
    "Oncegate-Batch": (0, _OFFSET_MAX),
    "Oncegate-Call": (0, _U32_MAX),
    "Oncegate-Epoch": (0, _OFFSET_MAX),
    "Oncegate-Lease-Ms": (0, _U32_MAX),
    "Oncegate-Prev-Sequence": (0, SEQUENCE_MAX),
    "Oncegate-Timeout-Ms": (1, _U32_MAX),
}
# `maximum` is for the document only: the engine checks it, since bounds here end at 2^63.
Sequence = Annotated[
    int, Meta(ge=0, description="a position in the ordered source", extra_json_schema={"maximum": SEQUENCE_MAX})
]
Ids = Annotated[
    list[Id],
    Meta(
        extra_json_schema={"maxItems": _DEFAULTS.ids_per_request, IN_FORCE: {"maxItems": "ids_per_request"}},
        description="strings, or lists of strings for ids of several columns; null and empty ids are refused",
    ),
]
IdSet = Annotated[str, Meta(description="the dedup scope of the ids, any text; equal ids of two scopes are different")]
# At least one name: an empty list is a caller's mistake, and rows without ids are written again by a retry.
Columns = Annotated[list[str], Meta(min_length=1)]
# In a query: comma separated names.
_Columns = Annotated[str, Meta(min_length=1)] | None
IdColumns = Annotated[_Columns, Meta(description="columns of a row's id, comma separated; none: `plain`")]
KeyColumns = Annotated[_Columns, Meta(description="columns that choose the partition, comma separated")]
DigestColumns = Annotated[_Columns, Meta(description="columns of the payload of a row's id, comma separated")]
ReadColumns = Annotated[_Columns, Meta(description="columns to return, comma separated; none: all")]
# The header of the dedup scope for bodies without such a member, and of packed and Arrow responses; percent-encoded.
ID_SET = "Oncegate-Id-Set"
Payloads = Annotated[
    list[Payload],
    Meta(description="one payload per id: strings, lists of strings, or null"),
]
# Callers' texts that are stored unchanged; the engine checks their length in bytes.
SourceOffsets = Annotated[
    str,
    Meta(
        min_length=1,
        description="the offsets from which to continue reading the source: any text, returned unchanged",
        extra_json_schema={
            "maxLength": _DEFAULTS.source_offsets_bytes,
            IN_FORCE: {"maxLength": "source_offsets_bytes"},
        },
    ),
]
Result = Annotated[
    bytes,
    Meta(
        description="a few bytes, base64, returned to later requests for one of the claim's ids",
        extra_json_schema={"minLength": 4},
    ),
]


# Formats of numbers in responses that may exceed 2^53: a caller may request them as strings.
FORMATS = ("int64", "uint64")
Int64 = Annotated[int, Meta(extra_json_schema={"format": FORMATS[0]})]
UInt64 = Annotated[int, Meta(extra_json_schema={"format": FORMATS[1]})]


class Read(Struct, forbid_unknown_fields=True):
    """Base class of every request message."""
