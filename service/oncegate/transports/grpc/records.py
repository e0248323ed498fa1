"""Handles rows over gRPC: produced directly, or staged and committed as a batch."""

from collections.abc import Iterable

from oncegate.core.entries.kinds import Name
from oncegate.core.errors import BadRequest
from oncegate.engine.limits import Limits
from oncegate.engine.names import check_name, chosen, produced
from oncegate.engine.requests import ClaimResult, CommitRequest, ProduceRequest, ProduceResult, StageRequest, Winner
from oncegate.ports import RowRange
from oncegate.transports.decode import arrow_ipc, columns, names, records
from oncegate.transports.decode.names import scope_of
from oncegate.transports.decode.sequences import SequenceColumn
from oncegate.transports.grpc import gateway_pb2 as pb
from oncegate.transports.grpc.calls import GrpcMethod
from oncegate.transports.grpc.fields import given, number, optional_number, optional_sized, sized
from oncegate.transports.incoming import Admitted
from oncegate.transports.numbers import numbers_packed
from oncegate.transports.offload import offload
from oncegate.transports.writes import NamedColumns, ProduceAsked, produce_request, spilled_at

_SHA256_BYTES = 32
_FIRST_WINS = {
    pb.REPLAY_MISMATCH_UNSPECIFIED: False,
    pb.REPLAY_MISMATCH_FAIL: False,
    pb.REPLAY_MISMATCH_FIRST_WINS: True,
}
_COMMITS = {"COMMITTED": pb.COMMIT_OUTCOME_COMMITTED, "DUPLICATE": pb.COMMIT_OUTCOME_DUPLICATE}


async def produce(message: pb.ProduceRequest, admitted: Admitted) -> pb.ProduceResponse:
    """Writes rows directly; those with ids or sequences take effect once."""
    request = await offload(len(admitted.body), _produce_request, message, admitted)
    result = await admitted.namespace.records.produce(request, admitted.deadline)
    return _produced(request, result, admitted.gateway.limits)


def _produce_request(message: pb.ProduceRequest, admitted: Admitted) -> ProduceRequest:
    topic, token = names.topic_name(message.topic), sized(message.token, "token")
    sequences = SequenceColumn(
        given(message, "producer"),
        optional_number(message, "epoch"),
        given(message, "sequence_col"),
        given(message, "prev_sequence"),
    )
    scope, limits = scope_of(given(message, "driver"), optional_number(message, "batch")), admitted.gateway.limits
    named = NamedColumns(*map(_column_names, (message.id_col, message.key_col, message.digest_col)))
    spilled = spilled_at(optional_number(message, "spilled_ms"), admitted.caller)
    id_set = given(message, "id_set")
    asked = ProduceAsked(topic, token, message.call, named, id_set, sequences, scope, spilled=spilled)
    return produce_request(arrow_ipc.read_rows(message.arrow, limits), asked, admitted)


def _column_names(given_names: Iterable[str]) -> list[str]:
    found = list(given_names)
    if "" in found:
        raise BadRequest("a column without a name; nothing was written")
    return columns.check_distinct(found, "a column")


def _produced(request: ProduceRequest, result: ProduceResult, limits: Limits) -> pb.ProduceResponse:
    answer = pb.ProduceResponse(
        rows=result.rows,
        offsets=_offsets(result.spans, request.topic),
        offsets_before=_offsets(result.before, request.topic),
    )
    if result.verdicts is not None and result.numbers is not None:
        answer.verdicts = result.verdicts.tobytes()
        answer.numbers = numbers_packed(ClaimResult(None, 0, result.verdicts, result.numbers))
        answer.shadow_verdicts = b"" if result.shadow is None else result.shadow.tobytes()
    if request.ids is not None:
        answer.id_set = chosen(request.id_set, produced(request.topic), limits)
    return answer


async def stage(message: pb.StageRequest, admitted: Admitted) -> pb.StageResponse:
    """Stages one chunk of one attempt until its batch is committed."""
    request = await offload(len(admitted.body), _stage_request, message, admitted)
    result = await admitted.namespace.batches.stage(request, admitted.deadline)
    outcome = pb.STAGE_OUTCOME_COMMITTED if result.committed else pb.STAGE_OUTCOME_STAGED
    return pb.StageResponse(outcome=outcome, rows=result.rows, fingerprint=result.fingerprint, chunk=request.chunk)


def _stage_request(message: pb.StageRequest, admitted: Admitted) -> StageRequest:
    namespace, limits = admitted.namespace, admitted.gateway.limits
    token, sha256 = sized(message.token, "token"), sized(message.sha256, "sha256", _SHA256_BYTES)
    rows = records.read_chunk(message.arrow, sha256, limits)
    check_name("owner", message.owner, limits)
    name, fingerprinter = _name(message.name, limits), namespace.row_fingerprints
    keys = columns.key_hashes(rows, _column_names(message.key_col), fingerprinter)
    fingerprint = records.fingerprint_of(rows, fingerprinter)
    return StageRequest(name, message.owner, token, message.chunk, sha256, rows, fingerprint, keys, admitted.sender)


async def commit(message: pb.CommitRequest, admitted: Admitted) -> pb.CommitResponse:
    """Publishes the winners' rows under the batch's name, all or nothing."""
    result = await admitted.namespace.batches.commit(_commit_request(message, admitted), admitted.deadline)
    return pb.CommitResponse(
        outcome=_COMMITS[result.outcome],
        rows=result.rows,
        offsets=_offsets(result.spans, message.name.topic),
        suppressed_rows=result.suppressed_rows,
        takeover_rows=result.takeover_rows,
        first_of_app=result.first_of_app,
        warning=result.warning,
        higher_version=result.higher_version,
    )


def _commit_request(message: pb.CommitRequest, admitted: Admitted) -> CommitRequest:
    limits = admitted.gateway.limits
    run = given(message, "run")
    if run is not None:
        check_name("run", run, limits)
    if message.on_replay_mismatch not in _FIRST_WINS:
        raise BadRequest(f"on_replay_mismatch: there is no {message.on_replay_mismatch}; nothing was written")
    return CommitRequest(
        _name(message.name, limits),
        run,
        sized(message.nonce, "nonce"),
        tuple(map(_winner, message.winners)),
        optional_sized(message, "digest", _SHA256_BYTES),
        optional_sized(message, "previous_digest", _SHA256_BYTES),
        _FIRST_WINS[message.on_replay_mismatch],
        message.source_offsets.encode(),
        optional_sized(message, "reads_digest", _SHA256_BYTES),
        admitted.sender,
    )


def _winner(told: pb.Winner) -> Winner:
    token, fingerprint = sized(told.token, "token"), sized(told.fingerprint, "fingerprint")
    return Winner(token, told.chunks, number(told.rows, "rows"), fingerprint)


def _name(message: pb.BatchName, limits: Limits) -> Name:
    return names.batch_name(message.app, message.version, message.topic, message.write_id, limits)


def _offsets(ranges: Iterable[RowRange], topic: str) -> list[pb.PartitionOffset]:
    """Converts ranges of rows to messages; `topic`: the request's."""
    return [
        pb.PartitionOffset(
            partition=one.partition,
            first_offset=one.first_offset,
            rows=one.rows,
            topic=None if one.topic == topic else one.topic,
        )
        for one in ranges
    ]


PRODUCE: dict[str, GrpcMethod] = {"Produce": GrpcMethod(pb.ProduceRequest, produce, "produceRecords")}
BATCHES: dict[str, GrpcMethod] = {
    "Stage": GrpcMethod(pb.StageRequest, stage, "stageChunk"),
    "Commit": GrpcMethod(pb.CommitRequest, commit, "commitBatch"),
}
