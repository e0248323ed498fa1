"""Builds the engine's requests to write rows and to ack from parsed messages, for every transport."""

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
    """The columns of rows that form the id, choose the partition, and form the payload."""

    id: list[str]
    key: list[str]
    digest: list[str]


@dataclass(frozen=True, slots=True)
class ProduceAsked:
    """The fields of a produce besides its rows: its identity, and the roles of the columns."""

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
    """Builds the request; reads ids, keys, payloads and sequences from their columns. Raises BadRequest, TooLarge."""
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
    """Returns the time since which a caller's rows waited on its disk; None if they were not spilled."""
    return None if wall_ms is None else Spilled(wall_ms, caller)


def source_of_ack(topic: str | None, source_offsets: str | None, limits: Limits) -> tuple[str, bytes]:
    """Returns the topic of an ack, and the offsets from which to continue its source. Raises BadRequest, TooLarge."""
    if topic is not None:
        check_name("topic", topic, limits)
    elif source_offsets is not None:
        raise BadRequest("source_offsets come with the topic that is written to: add `topic`; nothing was acked")
    return topic or "", (source_offsets or "").encode()


def lane_question(
    topic: str, producer: str, span: tuple[int, int], acked: int | None, topic_id: str | None
) -> LaneQuestion:
    """Builds the query of a lane. `span`: first and last sequence; `topic_id`: in the form of Kafka's tools.

    Raises BadRequest.
    """
    of_numbers(list(span), "first, last")
    return LaneQuestion(topic, producer, *span, acked, None if topic_id is None else topic_id_bytes(topic_id))


def noted(caller: str, who: str | None, why: str) -> Note:
    """Returns the audit note of an operator action: the credential's name, the name given by the caller, and the
    reason.

    Raises BadRequest if there is neither name.
    """
    if not caller and not who:
        raise BadRequest("who is missing: this gateway asks for no key, so nothing else says it; nothing was changed")
    return Note(f"{caller} ({who})" if caller and who and who != caller else caller or who or "", why)
