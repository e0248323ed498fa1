"""Parses the writer of a request: JSON in the header `Oncegate-Writer`, or in the metadata of a gRPC call."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from oncegate.core.errors import BadRequest
from oncegate.core.writers import NUMBER_MAX, WriterId, encode
from oncegate.engine.limits import Limits
from oncegate.engine.names import check_name
from oncegate.transports.decode import json_scan

HEADER = "Oncegate-Writer"
_Number = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
_Name = Annotated[str, Meta(extra_json_schema={"minLength": 1})]


class WriterMessage(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The writer, as far as the caller knows it. Stored with the written ids, to find the causes of duplicates."""

    job: Annotated[_Name, Meta(description="what writes, the same at each start: a query's id, or any name")]
    run: Annotated[_Name | None, Meta(description="one start of the job")] = None
    batch: Annotated[_Name | None, Meta(description="a part of the job's input, whichever run reads it")] = None
    stage: Annotated[_Number | None, Meta(description="a part of the batch's work, as Spark counts it")] = None
    stage_attempt: Annotated[_Number | None, Meta(description="counts the tries of the stage")] = None
    task: Annotated[_Number | None, Meta(description="a part of the stage's rows: Spark's partition")] = None
    attempt: Annotated[_Number | None, Meta(description="counts the tries of the task in one of its stage's")] = None
    serial: Annotated[_Number | None, Meta(description="counts all attempts of a run's tasks, as they start")] = None
    speculation: Annotated[bool, Meta(description="attempts of one task may run side by side")] = False


_DECODER = msgspec.json.Decoder(WriterMessage)


def writer_bytes(texts: Sequence[str], limits: Limits) -> bytes:
    """Returns the writer in `texts`, encoded by `core.writers`. Raises BadRequest, also for two texts; TooLarge."""
    if len(texts) > 1:
        raise BadRequest(f"the metadata {HEADER.lower()} is there twice; nothing was written")
    return _read(texts[0], limits)


# A task sends the same writer with all of its requests.
@lru_cache(maxsize=4_096)
def _read(text: str, limits: Limits) -> bytes:
    data = text.encode()
    json_scan.check(data, limits)
    try:
        named = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadRequest(f"{HEADER} cannot be read: {error}; nothing was written") from error
    for what in ("job", "run", "batch"):
        if (name := getattr(named, what)) is not None:
            check_name(f"{what} of {HEADER}", name, limits)
    return encode(WriterId(*msgspec.structs.astuple(named)))
