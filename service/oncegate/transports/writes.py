"""What requests to write rows and to ack ask for, made of what a transport has read; the same for each transport."""

from dataclasses import dataclass

from oncegate.core.errors import BadRequest
from oncegate.engine.limits import Limits
from oncegate.engine.names import check_name, produced
from oncegate.engine.producer_requests import LaneQuestion, Note
from oncegate.engine.requests import ProduceRequest, Rows, Scope, Spilled
from oncegate.transports.decode import ids, payloads
from oncegate.transports.decode.columns import key_hashes
from oncegate.transports.decode.names import topic_id_bytes
from oncegate.transports.decode.sequences import SequenceColumn, of_numbers, of_rows
from oncegate.transports.incoming import Admitted


@dataclass(frozen=True, slots=True)
class NamedColumns:
    """Names the columns of rows that are their id, choose their partition, and are the payload of their id."""

    id: list[str]
    key: list[str]
    digest: list[str]


@dataclass(frozen=True, slots=True)
class ProduceAsked:
    """Holds what a produce says beside its rows: whose request it is, and which columns are what."""

    topic: str
    token: bytes
    call: int
    columns: NamedColumns
    id_set: str | None
    sequences: SequenceColumn
    scope: Scope | None
    locate: bool = False
    spilled: Spilled | None = None


def produce_request(rows: Rows, asked: ProduceAsked, admitted: Admitted) -> ProduceRequest:
    """Makes the request: ids, keys, payloads and sequences read from their columns. Raises BadRequest, TooLarge."""
    named = asked.columns
    if asked.id_set is not None and not named.id:
        raise BadRequest("id_set names the set of the rows' ids, and without id_col no row has one")
    namespace, limits = admitted.namespace, admitted.gateway.limits
    printer = namespace.fingerprints(asked.id_set, produced(asked.topic))
    found = ids.of_named_columns(rows, named.id, printer, limits)
    if asked.spilled is not None and found is None:
        raise BadRequest("spilled_ms is of rows that are written once by their ids, and without id_col no row has one")
    keys = key_hashes(rows, named.key, namespace.row_fingerprints)
    is_named = found is not None or not asked.sequences.absent
    digests = payloads.of_named_columns(rows, named.digest, is_named, namespace.payloads, limits)
    sequenced = of_rows(rows, asked.sequences, bool(named.id), asked.token, asked.call, admitted.sender)
    column = asked.sequences.name
    return ProduceRequest(
        asked.topic,
        asked.token,
        asked.call,
        rows,
        found,
        keys,
        scope=asked.scope,
        sequenced=sequenced,
        digests=digests,
        id_set=asked.id_set,
        locate=asked.locate,
        made_ms=printer.made_ms,
        beside=(*named.id, *named.digest, *(() if column is None else (column,))),
        spilled=asked.spilled,
        sender=admitted.sender,
    )


def spilled_at(wall_ms: int | None, caller: str) -> Spilled | None:
    """Returns since when a caller's rows had waited on its disk; None: it says nothing of that."""
    return None if wall_ms is None else Spilled(wall_ms, caller)


def source_of_ack(topic: str | None, source_offsets: str | None, limits: Limits) -> tuple[str, bytes]:
    """Returns the topic that is written to, and where its source is to be read on. Raises BadRequest, TooLarge."""
    if topic is not None:
        check_name("topic", topic, limits)
    elif source_offsets is not None:
        raise BadRequest("source_offsets come with the topic that is written to: add `topic`; nothing was acked")
    return topic or "", (source_offsets or "").encode()


def lane_question(
    topic: str, producer: str, span: tuple[int, int], acked: int | None, topic_id: str | None
) -> LaneQuestion:
    """Makes the question about a lane. `span`: first and last sequence; `topic_id`: as Kafka's tools show it.

    Raises BadRequest.
    """
    of_numbers(list(span), "first, last")
    return LaneQuestion(topic, producer, *span, acked, None if topic_id is None else topic_id_bytes(topic_id))


def noted(caller: str, who: str | None, why: str) -> Note:
    """Says who asks for an operator's action, and why: the credential's name, and beside it what the caller says.

    Raises BadRequest: neither names anybody.
    """
    if not caller and not who:
        raise BadRequest("who is missing: this gateway asks for no key, so nothing else says it; nothing was changed")
    return Note(f"{caller} ({who})" if caller and who and who != caller else caller or who or "", why)
