"""Messages of named batches: stage, commit, abort, and source offsets."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from oncegate.transports.http.messages.fields import (
    U32,
    Hex32,
    Hex64,
    Int64,
    KeyColumns,
    Named,
    Offset,
    Read,
    SourceOffsets,
    Token,
    Topic,
)
from oncegate.transports.http.messages.topics import PartitionOffset


class BatchName(Read):
    """Identifies one batch of one job for one topic. Each name is committed at most once."""

    app: Named
    version: Named
    topic: Topic
    write_id: str = ""


class StageQuery(BatchName, kw_only=True):
    """Identifies the batch and the chunk of an Arrow body."""

    owner: Named
    chunk: U32
    key_col: KeyColumns = None


class StageReply(Struct, frozen=True):
    """Confirms that the chunk is staged, or that its batch was committed before."""

    outcome: Literal["STAGED", "COMMITTED"]
    rows: Int64
    fingerprint: Hex32
    chunk: int


class WinnerMessage(Read):
    """One attempt whose staged chunks are part of the batch, and a summary of these chunks."""

    token: Token
    chunks: U32
    rows: Offset
    fingerprint: Hex32


class CommitRequest(Read):
    """Publishes the winners' rows under the batch's name, all or nothing."""

    name: BatchName
    nonce: Hex32
    winners: list[WinnerMessage]
    run: Named | None = None
    digest: Hex64 | None = None
    previous_digest: Hex64 | None = None
    reads_digest: Hex64 | None = None
    on_replay_mismatch: Literal["fail", "first_wins"] = "fail"
    source_offsets: SourceOffsets | None = None


class CommitReply(Struct, frozen=True):
    """Returns the committed rows of the name, and their offsets."""

    outcome: Literal["COMMITTED", "DUPLICATE"]
    rows: Int64
    offsets: list[PartitionOffset]
    suppressed_rows: Int64
    takeover_rows: Int64
    first_of_app: bool
    warning: str | UnsetType = UNSET
    higher_version: str | UnsetType = UNSET


class OffsetsQuery(Read):
    """Selects the job and topic whose source offsets are returned."""

    app: Named
    topic: Named
    write_id: str = ""


class OffsetsReply(Struct, frozen=True):
    """Returns the offsets from which a job continues to read its source."""

    app: str
    topic: str
    write_id: str
    source_offsets: str


class AbortRequest(Read):
    """Removes the chunks that these attempts staged under a name."""

    name: BatchName
    tokens: list[Token]


class AbortReply(Struct, frozen=True):
    """Returns the number of removed stages."""

    outcome: Literal["ABORTED", "COMMITTED"]
    removed: int
