"""Descriptions of the OpenAPI document: how to use the calls, and what each member of a message means.

A client must be able to be written from the document alone (`examples/go` was): whatever it needs to know stands here.
"""

from typing import Any

from oncegate.core.verdicts import VERDICTS
from oncegate.engine import counters
from oncegate.transports.http.openapi import descriptions_operators, descriptions_producers, encodings
from oncegate.transports.http.openapi.examples import MARK

DESCRIPTION = f"""\
A deduplicating gateway: writers that retry ask it before they produce, or let it produce; each record then takes
effect once. A duplicate is a success. What cannot be answered is a problem document (RFC 9457) that says what to do:
`action` is retry, fix or stop; `effect` is none or unknown.

## Claiming

1. An *attempt* is one try of one task. It draws a token of 128 random bits, keeps it for all its requests and shares
   it with nobody; the next try of the same task is another attempt.
2. `ids:claim` with the token and the next `call`: 0, 1, 2, … counts what this attempt claims and produces; complete,
   release and renew do not count. Each id gets a verdict, in order.
3. Write what is GRANTED to your own sink. If that takes longer than a third of `lease_ms`, renew meanwhile: once the
   lease is over, others are granted the same ids.
4. When it is durable, complete the claim. When not one of its ids was written nor will be, release it. When nobody
   knows, do neither: after the lease the ids are granted to whoever asks, as a takeover.
5. Ask again for what was BUSY, and for all ids of a claim whose completion says `taken_over`, in a new call that
   names only those, until every id is GRANTED and completed, DUPLICATE or SAME.
6. With a payload beside each id, an id that was written with another payload is CONFLICT and not DUPLICATE: two
   different things carry one id, which is a bug of whoever made them. Neither write it nor count it as written.

## Sets of ids

An id is known by its set and itself. `ids:claim` uses the set "", `ids:take` the set "dedup", and `records:produce` the
set that is named after its topic: the same id may be written to two topics, once to each. `id_set` names another one,
any text: calls that name one set meet in it, whatever they are. Every answer says which set it is about. Sequences have
no set: a producer is a lane into one target, and whoever writes a source to two targets names two producers.

## Repeating

A request whose answer did not come (a broken connection, a time-out, an answer that is no problem document) may have
taken effect. Send the very same request again, with the same token and call, chunk or nonce and the same ids or rows:
it is recognised and decided once more. complete, release, renew, abort and the making of a namespace may be repeated
as they are. Only `records:produce` without ids is written again. Under a new token the ids of an unanswered claim are
BUSY until its lease ends.

## What is refused

Each parameter says for which bodies it is taken (`x-oncegate-bodies`: media types; none said: all). Any other one, any
other header `Oncegate-*`, `Content-Digest` or `Idempotency-Key`, any unknown member, and whatever is there twice is
BAD_REQUEST: nothing that was sent is passed over. Names in headers and paths are percent-encoded UTF-8.

## Numbers of 64 bits

`Accept: application/json; int64=string` has each member of an answer whose format is int64 or uint64 as a text of its
decimal digits, whatever its value, for readers that hold numbers as doubles and lose those above 2^53; and so has it
the values of int64 and uint64 columns in `records`, also inside lists, structs and maps. Other numbers stay numbers,
and so do those in problem documents, whose type Accept does not choose: `detail` has them as text. Requests have
numbers only. A parameter of Accept that is not known is NOT_ACCEPTABLE.

## Namespaces and marks

`PUT /v1/namespaces/{{namespace}}` makes a namespace, harmless to repeat; `default` is there from the start. Every
success below a namespace carries a mark, `Oncegate-Ledger: {MARK}`: a place in that namespace's ledger. A client
sends the newest one back with its next requests to the same namespace. A gateway that does not find it there has lost
what it acknowledged, or is another one: it refuses that request, LEDGER_BEHIND, and would else grant written ids
again.

`DELETE /v1/namespaces/{{namespace}}` ends one, but for `default`. While it holds ids, topics, stages, named batches,
producers or drivers it is refused, NOT_EMPTY, unless `?confirm=` says the name once more. What is under way is answered
or refused (RECOVERING); then the name is free, for a namespace with another key and ledger: it knows nothing of the
old one, and refuses its marks. A repeat is NOT_FOUND; bring the marks you have, and it cannot end a later namespace of
the same name. On the gateway's disk the old one is moved aside, and stays until a person removes it.

{descriptions_producers.TEXT}
{encodings.TEXT}"""

VERDICT = "What to do with one id:\n" + "\n".join(
    f"* {', '.join([row.verdict.name, *(str(flag.name).lower() for flag in row.flags)])}: {row.meaning}"
    for row in VERDICTS
)

_LEASE_EXPIRY = (
    "what becomes of an id, or a sequence, whose holder's lease ran out. takeover: the next to ask is granted it. "
    "hold: it stays its holder's and others are told BUSY, until the holder completes or releases, or a person "
    "resolves the claim. fail: the same, and others are told IN_DOUBT at once"
)
_SHADOW = (
    "shadow mode: every verdict is GRANTED, with what it would have been beside it (`shadow_verdict`); it is decided, "
    "recorded and counted as ever"
)
_ON_LEDGER_DOWN = (
    "what claims of ids are told while the ledger is down. reject: they are refused (RECOVERING), and ask again. "
    "pass_marked: each id is GRANTED and `unchecked`, counted, and noted in the ledger once it is there again; nothing "
    "is held, so that an id may be written twice. Every other call is refused in either case"
)
_ID_TIME = (
    "how ids carry the time at which they were made: then an id that is older than what is still known is STALE, and "
    "not new; ids that do not carry it are refused. event_id: as the clients' EventIds makes them. uuid7: UUIDs of "
    "version 7, as text or as 16 bytes. none: they do not"
)

_SHARED = {
    "app": "who writes: a job's name, or a streaming query's id",
    "version": "which of its batches",
    "write_id": "tells the writes of one batch to one topic apart",
    "outcome": "COMMITTED: the batch of this name was published before",
    "key_col": "columns that choose the partition; none: a request goes whole to the next one",
    "partitions": "fixed once the topic is made",
    "retention_ms": "rows older than this are dropped in time; 0: kept for ever",
    "retention_bytes": "of one partition, the oldest rows beyond are dropped in time; 0: no bound",
}
_SCOPE = {
    "driver": "with `batch`: whose batch these ids belong to; none: they are the namespace's",
    "batch": "they are forgotten when this batch is acked, and STALE from then on",
}
_SEQUENCED = {
    "producer": "with `epoch` and `sequence_col`, instead of an id: the producer that these rows are of",
    "epoch": "as registering the producer answered",
    "sequence_col": "the column that holds each row's sequence",
    "prev_sequence": "the source holds nothing between it and the first row's",
}
_SPILLED = (
    "milliseconds since 1970 when the caller had laid these rows down, for the gateway was down; needs id_col. What is "
    "written is the same: it is counted, and told to operators (GET .../audit). Without it: they had not waited"
)
_LEASE_LEFT = "how long the holder's lease still runs: wait at most so long, it may settle before"
_NEXT = "`after` of the next page; null: there is none behind this one"
_ANSWERED_SET = "that the ids were looked up in"
_MEMBERS: dict[str, dict[str, str]] = {
    "ClaimRequest": {
        "call": "n-th request of this attempt, from 0; a repeat keeps its number, other ids take the next",
        "lease_ms": "between lease_ms_min and lease_ms_max of /v1/limits; without it, lease_ms of /v1/limits",
        **_SCOPE,
    },
    "ClaimReply": {
        "id_set": _ANSWERED_SET,
        "claim": "names what was granted, for complete, release and renew; null when nothing was",
        "lease_ms": "from the gateway's answer on; nothing to hold when claim is null",
    },
    "VerdictMessage": {
        "takeover": "with GRANTED and FREE: an earlier holder's lease ran out, it may have written this id too",
        "own": "with DUPLICATE: this very attempt wrote it before",
        "of_index": "with SAME: the place of the same id earlier in this request, from 0",
        "of_call": "with SAME: the earlier call of this attempt that holds it and was not settled yet",
        "lease_left_ms": f"with BUSY: {_LEASE_LEFT}. 0: ask again at once, in a new call",
        "unchecked": "with GRANTED: the ledger is down, nobody looked and nothing is held; it may be written twice",
        "shadow_verdict": "in shadow mode: what the verdict would have been; `verdict` is GRANTED",
        "place": "with `locate`: where the first of a DUPLICATE lies, or the row that is written now; null: not known",
        "result": "with DUPLICATE and `locate`, base64: what its claim was completed with; absent: none is known",
    },
    "Place": {"topic": "that it was written to", "partition": "of the topic, from 0", "offset": "of the row"},
    "SettleReply": {
        "claim": "as in the path",
        "state": "of the claim, whatever was asked: DONE also for the release or renewal of a completed one",
        "settled": "ids that still named this claim: they are as `state` says",
        "taken_over": "ids that another attempt was granted after this lease was over. Nothing changes for them: "
        "treat them as BUSY. Which ones is not said: claim all of this claim's ids in a new call",
        "lease_ms": "from now, after renew; else 0",
        "result": "after complete, base64: what the claim was completed with first; absent: with nothing, or it is not "
        "known any more",
        "other_result": "beside it: whether this request brought another result, which was left",
        "shadow_taken_over": "in shadow mode: what taken_over would have been; it is 0, and those count as settled",
    },
    "ExplainReply": {
        "id_set": "that it was looked for in: an id of a topic's rows is in the set named after the topic",
        "state": "ABSENT: free. CLAIMED_LIVE: held. CLAIMED_OVER: held by a lease that ran out. DONE: written",
        "claim": "the claim it is of",
        "token": "the attempt that made this claim",
        "call": "and its call",
        "lease_left_ms": "of a live claim",
        "position": "of the claim's entry in the ledger",
        "wall_ms": "milliseconds since 1970 when that entry was made, a label only",
        "takeover": "whether the claim took this id from another",
        "topic": "that it was written to, where the gateway wrote it",
        "partition": "of the topic",
    },
    "TakeRequest": {
        "owner": "whose the ids are from now on: GRANTED to the same owner again, DUPLICATE to others",
        **_SCOPE,
    },
    "TakeReply": {"id_set": _ANSWERED_SET},
    "LookUpReply": {"id_set": _ANSWERED_SET},
    "ProduceRequest": {
        "call": "n-th request of this attempt, from 0, claims and produces together",
        "records": "one object a row; its members are the columns, one that is left out is null; a value that its "
        "column's type cannot give back is 409 SCHEMA. Times, durations and decimals are text, binary is base64",
        "id_col": "columns that are a row's id; none: `plain`, a repeat is written again",
        "key_col": _SHARED["key_col"],
        **_SCOPE,
        **_SEQUENCED,
        "digest_col": "columns that are the payload of a row's id: written again with another, it is CONFLICT",
        "spilled_ms": _SPILLED,
    },
    "ProduceQuery": {
        **_SEQUENCED,
        "id_set": "the set that the rows' ids are of; none: the one named after the topic",
        "spilled_ms": _SPILLED,
    },
    "ProduceReply": {
        "id_set": f"with ids only: {_ANSWERED_SET}",
        "rows": "written by this request",
        "offsets": "where they are; none for a repeat of what was written before, or where a broker did not tell it",
        "offsets_before": "of a repeat: where earlier tries of this very request wrote; absent: nothing, or not known",
        "verdicts": "with ids only, one a row: GRANTED rows were written by this request, BUSY ones by nobody yet",
    },
    "PartitionOffset": {
        "partition": "from 0; several ranges of one partition are in the order of its rows",
        "first_offset": "of these rows",
        "rows": "from there on, without holes",
        "topic": "where it is another than the request's: rows in Kafka may name one each",
    },
    "BatchName": {**{name: _SHARED[name] for name in ("app", "version", "write_id")}, "topic": "that it is written to"},
    "StageQuery": {
        **{name: _SHARED[name] for name in ("app", "version", "write_id", "key_col")},
        "topic": "that the batch is written to",
        "owner": "run:<id> or job:<id>: a later run: of the same name drops the stages of an older one",
        "chunk": "n-th of this token, from 0; a repeat keeps its number",
    },
    "StageReply": {
        "outcome": f"STAGED, durably; or {_SHARED['outcome']}, nothing is stored",
        "rows": "of this chunk",
        "fingerprint": "of this chunk's rows, in whatever order; those of several chunks are added up (Named batches)",
        "chunk": "as asked",
    },
    "WinnerMessage": {
        "chunks": "that this token staged",
        "rows": "in all of them",
        "fingerprint": "of all of them: the sum modulo 2^128 of the chunks' fingerprints, each read as one number "
        "of 16 bytes, least significant first; zeros for no chunk",
    },
    "CommitRequest": {
        "winners": "the tokens whose rows are the batch; other stages of the name are dropped",
        "run": "of the query: within one run a second nonce for a committed name is SECOND_WRITE; null: not checked",
        "digest": "SHA-256 of what the batch was made from, by the caller's rule; null: not known, rows are compared",
        "previous_digest": "that of the batch before, `version` less one, as the caller knows it: other than what was "
        "committed is BATCH_CONFLICT; null: not compared",
        "reads_digest": "SHA-256 of what the batch reads, the same also where `digest` is another, as after a "
        "checkpoint was restored: equal ones are a replay; null: not known",
        "nonce": "drawn for this commit; its repeats after a lost answer keep it",
        "on_replay_mismatch": "first_wins: a replay with other rows, whose digests are not known on both sides, is "
        "DUPLICATE, and not refused as BATCH_CONFLICT; digests that differ are refused in either case",
        "source_offsets": "where the source is to be read on behind this batch; null: not known, and what the batch "
        "before said is forgotten",
    },
    "OffsetsQuery": {
        "app": "of the batches' names; or the driver",
        "topic": "of the batches' names; or as the driver's acks say",
        "write_id": "of the batches' names; acks have none",
    },
    "OffsetsReply": {
        **dict.fromkeys(("app", "topic", "write_id"), "as asked"),
        "source_offsets": "of the newest batch, or ack: all before is in effect, and its rows are written",
    },
    "CommitReply": {
        "outcome": f"COMMITTED now; or DUPLICATE: {_SHARED['outcome'].partition(': ')[2]}",
        "rows": "published under this name",
        "offsets": "where they are; none of a name older than the last 1,000 of its app, topic and write_id",
        "suppressed_rows": "brought and not published, by this and earlier replays",
        "takeover_rows": "0: nothing is taken over in a named batch",
        "first_of_app": "COMMITTED, and no other of the names remembered in this topic is of this app",
        "warning": "what a person should know",
        "higher_version": "DUPLICATE: this version is committed, and that of the name, a lower number, is skipped",
    },
    "AbortRequest": {"tokens": "whose stages are removed"},
    "AbortReply": {"outcome": f"ABORTED; or {_SHARED['outcome']}, it stays", "removed": "stages that were there"},
    "TopicRequest": {
        **{name: _SHARED[name] for name in ("partitions", "retention_ms", "retention_bytes")},
        "merge_schema": "columns of schema_ipc that the topic has not are added behind its own, and null in every row "
        "before; it may leave out columns. Without it another schema than the topic's is refused (SCHEMA)",
    },
    "TopicReply": {
        "topic": "as in the path",
        **{name: _SHARED[name] for name in ("partitions", "retention_ms", "retention_bytes")},
        "schema": "for a person to read",
        "low_offsets": "the lowest kept, by partition",
        "high_offsets": "the end: of the next row to come, by partition",
    },
    "TopicsReply": {"next": _NEXT},
    "NamespacesReply": {"next": _NEXT},
    "RecordsReply": {
        "records": "one object a row",
        "first_offset": "of the first of them",
        "next_offset": "where to read on",
        "high_offset": "the partition's end",
    },
    "NamespaceDeletion": {
        "confirm": "the namespace's name once more: delete it whatever it holds, and also while it does not serve"
    },
    "DeletedReply": {"namespace": "as in the path"},
    "NamespaceRequest": {
        "auto_create_topics": "whether a first write makes its topic",
        "record_headers": "whether records in Kafka topics have headers that say who wrote them; for namespaces that "
        "hold nothing yet, with the ledger on Kafka",
        "lease_expiry": _LEASE_EXPIRY,
        "id_time": _ID_TIME,
        "shadow": _SHADOW,
        "on_ledger_down": _ON_LEDGER_DOWN,
    },
    "NamespaceReply": {
        "namespace": "as in the path",
        "ledger": "its ledger's id, as in marks",
        "horizon_ms": "how long a done id is known; 0: for ever",
        "auto_create_topics": "whether a first write makes its topic",
        "record_headers": "whether records in Kafka topics have headers that say who wrote them",
        "lease_expiry": _LEASE_EXPIRY,
        "id_time": _ID_TIME,
        "shadow": _SHADOW,
        "on_ledger_down": _ON_LEDGER_DOWN,
        "failing": "what fails for now, and why: work in the background (compaction, eviction), which is tried again; "
        "`room`, while the disk is full, says how much must be made. Requests are answered meanwhile",
        "counters": counters.description(),
        "durability": "what an acknowledged append outlives, as the ledger's server said last; absent where the "
        "kind of ledger says it",
        "topics_at": "the brokers of the Kafka topics that rows are written into; absent: topics are the gateway's own",
    },
    "Problem": {
        "type": "leads to GET /errors/{code}",
        "title": "the same for every problem of this code",
        "status": "as in the status line",
        "detail": "for a person: what was wrong with this request, and what to do",
        "code": "for a program; the examples of each operation list those it can answer",
        "action": "retry: the same request again, after retry_after_ms (MISSING_STAGE: stage and commit again). "
        "fix: sending it again cannot help, another request can. stop: this attempt is over, a person looks",
        "effect": "of this request, none or unknown; earlier tries of it that were not answered stay unknown",
        "trace_id": "of the gateway's log; that of the request's traceparent, if it had one",
        "retry_after_ms": "wait so long, and a random part more; the header Retry-After says it in whole seconds. "
        "Absent: waiting does not help",
    },
    "Limits": {
        "ids_per_request": "more are TOO_LARGE: cut the request",
        "id_bytes": "of one id, all its columns together",
        "body_bytes": "of one request",
        "bytes_in_flight": "of bodies, and of answers that their callers have not read; an eighth of it for answers of "
        "one caller, which is a credential or, without keys, an address",
        "unread_answer_ms": "a caller that takes no byte of an answer for so long is cut off",
        "record_bytes": "of one row",
        "lease_ms": "what a claim without lease_ms gets",
        "lease_ms_min": "shorter leases are refused",
        "lease_ms_max": "longer leases are refused",
        "settled_claim_ms": "how long a settled claim is known at least, so that a repeat of its complete, release or "
        "claim is answered as the first; the oldest go after two leases where memory is short (forgotten_early)",
        "settled_claims_bytes": "of memory for them",
        "result_bytes": "of what a claim is completed with",
        "results_bytes": "of memory for them; the oldest are forgotten first (results_forgotten)",
        "located_entries": "of the ledger that one request with `locate` has read: a request's rows are one, or one a "
        "partition; what lies in more stays unknown",
        "stage_bytes": "of rows staged and not committed, in all",
        "stage_ttl_ms": "stages are dropped so long after the last call under their name",
        "stage_idle_ms": "an older owner's stages are dropped when it was silent so long",
        "name_bytes": "of app, version, write_id, owner, run, producer or driver",
        "producers": "in one namespace, for ever",
        "drivers": "in one namespace, for ever",
        "intervals": "of one producer: separate ranges of sequences that were not acked yet",
        "sequence_digests": "of all producers: sequences that were not acked yet and came with a payload",
        "fetch_rows": "of one answer of records",
        "page_bytes": "of one answer of records, where it ends",
    },
    **descriptions_producers.MEMBERS,
    **descriptions_operators.MEMBERS,
}

# What JSON Schema says of several members together; `messages` says it of each.
_NO_BATCH = {"properties": {"driver": {"type": "null"}, "batch": {"type": "null"}}}
_A_BATCH = {
    "required": ["driver", "batch"],
    "properties": {"driver": {"type": "string"}, "batch": {"type": "integer"}},
}
_TOGETHER: dict[str, dict[str, Any]] = {
    **{name: {"anyOf": [_NO_BATCH, _A_BATCH]} for name in ("ClaimRequest", "TakeRequest", "ProduceRequest")},
    "SequencesRequest": {
        "oneOf": [
            {
                "required": ["sequences"],
                "properties": {
                    "sequences": {"type": "array", "items": {"type": "integer"}},
                    "first": {"type": "null"},
                    "last": {"type": "null"},
                },
            },
            {
                "required": ["first", "last"],
                "properties": {
                    "sequences": {"type": "null"},
                    "first": {"type": "integer"},
                    "last": {"type": "integer"},
                },
            },
        ]
    },
}


def of(message: str, member: str) -> str:
    """Returns the description of one member; its name where there is none."""
    return _MEMBERS.get(message, {}).get(member, member)


def described(schemas: dict[str, Any]) -> dict[str, Any]:
    """Adds the members' descriptions to the schemas. Raises KeyError for a description of what is not there."""
    schemas["VerdictMessage"]["description"] = VERDICT
    for name, members in _MEMBERS.items():
        for member, description in members.items():
            schemas[name]["properties"][member]["description"] = description
    for name, rule in _TOGETHER.items():
        schemas[name].update(rule)
    return schemas
