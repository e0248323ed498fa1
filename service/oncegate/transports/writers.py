"""Reads the writer that a request names: JSON in the header `Oncegate-Writer`, or in the metadata of a call."""

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
    """Says who writes, as far as the caller knows: it is kept beside what is written, and tells causes of duplicates.

    job: what writes, the same at each start. run: one start of it. batch: a part of its input. stage, task, and the
    numbers of their attempts: as Spark counts them. serial: counts the attempts of all tasks of a run, as they start.
    speculation: attempts of one task may run side by side.
    """

    job: _Name
    run: _Name | None = None
    batch: _Name | None = None
    stage: _Number | None = None
    stage_attempt: _Number | None = None
    task: _Number | None = None
    attempt: _Number | None = None
    serial: _Number | None = None
    speculation: bool = False


_DECODER = msgspec.json.Decoder(WriterMessage)


def writer_bytes(text: str | None, limits: Limits) -> bytes:
    """Returns the writer as of `core.writers`; empty: there is no text. Raises BadRequest, TooLarge."""
    return b"" if text is None else _read(text, limits)


# A task sends one writer with each of its requests.
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
