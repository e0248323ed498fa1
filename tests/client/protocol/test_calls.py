"""The request and the decoded answer of each call, for both clients, against a scripted gateway."""

import base64
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest

from oncegate_spark import AsyncAttempt, AsyncGateway, Attempt, Gateway
from oncegate_spark.errors import (
    BadId,
    BadOption,
    NotEmpty,
    OffsetTrimmed,
    Outcome,
    Refused,
    TooManyNamespaces,
    Unreadable,
)
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.answers import ProducedOffsets, Topic
from oncegate_spark.protocol.names import BatchName
from tests.support.clients import Connect, public
from tests.support.stub_gateway import LOST, Answer, Asked, StubGateway, problem
from tests.support.verdicts import BUSY, DUPLICATE, GRANTED, SAME, packed

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64())])


def members(asked: Asked) -> dict[str, Any]:
    return dict(json.loads(asked.body)) if asked.body else {}


def json_answer(**members: Any) -> Answer:
    return Answer(body=json.dumps(members).encode())


@pytest.mark.parametrize(("one", "other"), [(Gateway, AsyncGateway), (Attempt, AsyncAttempt)])
def test_both_clients_have_the_same_names_with_the_same_arguments(one: type, other: type) -> None:
    ours, theirs = public(one), public(other)
    assert ours.keys() == theirs.keys()
    for name, signature in ours.items():
        assert [str(p) for p in signature.parameters.values()] == [str(p) for p in theirs[name].parameters.values()], (
            name
        )


def test_take_names_its_owner_and_reports_its_own_ids(connect: Connect) -> None:
    answer = Answer(body=packed([GRANTED, DUPLICATE, SAME, BUSY]))
    with StubGateway(LOST, answer) as stub, connect(stub.url) as gateway:
        taken = gateway.take("Müller & Söhne", (name for name in ["a", "b", "a", "c"]))
        requests = stub.asked[-1]
    assert (taken.granted, taken.dropped, taken.busy) == (["a"], ["b", "a"], ["c"])
    assert requests.path.endswith("/ids:take")
    assert requests.headers["oncegate-owner"] == "M%C3%BCller%20%26%20S%C3%B6hne"
    assert requests.headers["accept"] == codecs.PACKED
    assert pa.ipc.open_stream(requests.body).read_all().column(0).to_pylist() == ["a", "b", "a", "c"]


@pytest.mark.parametrize("owner", [20261120, None, b"load", ""])
def test_an_owner_that_is_no_text_is_refused_before_it_is_sent(connect: Connect, owner: Any) -> None:
    with StubGateway() as stub, connect(stub.url) as gateway:
        with pytest.raises(BadOption, match=r'take\("load-2026-11-20", ids\)'):
            gateway.take(owner, ["a"])
        assert stub.asked == []


def test_ids_of_several_columns_may_come_as_a_table(connect: Connect) -> None:
    ids = pa.table({"day": ["mon", "mon"], "n": [1, 2]})
    with StubGateway(Answer(body=packed([DUPLICATE, GRANTED]))) as stub, connect(stub.url) as gateway:
        taken = gateway.take("job", ids)
        sent = pa.ipc.open_stream(stub.asked[0].body).read_all()
    assert taken.granted.to_pylist() == [{"day": "mon", "n": 2}]
    assert [column.to_pylist() for column in sent.columns] == [["mon", "mon"], ["1", "2"]]


@pytest.mark.parametrize("ids", ["abc", b"abc", [("a", "b"), "cd"], [("a", "b"), ("c",)]])
def test_an_invalid_list_of_ids_is_refused_before_it_is_sent(connect: Connect, ids: Any) -> None:
    """A text is a list of characters, and a claim of those would be granted."""
    with StubGateway() as stub, connect(stub.url) as gateway, gateway.attempt() as attempt:
        for ask in (attempt.claim, lambda ids: gateway.take("owner", ids)):
            with pytest.raises(BadId):
                ask(ids)
        assert stub.asked == []


def test_a_topic_is_made_with_what_was_given_and_nothing_else(connect: Connect) -> None:
    with StubGateway() as stub, connect(stub.url) as gateway:
        gateway.create_topic("a b")
        gateway.create_topic("t", partitions=4, retention_ms=0, retention_bytes=10, schema=SCHEMA)
        plain, full = stub.asked
    assert (plain.method, plain.path, members(plain)) == ("PUT", "/v1/namespaces/default/topics/a%20b", {})
    given = members(full)
    assert pa.ipc.read_schema(pa.py_buffer(base64.b64decode(given.pop("schema_ipc")))) == SCHEMA
    assert given == {"partitions": 4, "retention_ms": 0, "retention_bytes": 10}


def test_a_namespace_is_made_with_what_was_given_and_nothing_else(connect: Connect) -> None:
    with StubGateway() as stub, connect(stub.url, "mail") as gateway:
        gateway.create_namespace()
        gateway.create_namespace(
            horizon_ms=0,
            auto_create_topics=False,
            record_headers=True,
            lease_expiry="fail",
            id_time="uuid7",
            shadow=True,
            on_ledger_down="pass_marked",
        )
        plain, full = stub.asked
    assert (plain.method, plain.path, members(plain)) == ("PUT", "/v1/namespaces/mail", {})
    assert members(full) == {
        "horizon_ms": 0,
        "auto_create_topics": False,
        "record_headers": True,
        "lease_expiry": "fail",
        "id_time": "uuid7",
        "shadow": True,
        "on_ledger_down": "pass_marked",
    }


def test_a_namespace_is_deleted_with_its_name_if_that_was_said_and_its_mark_is_brought_no_more(
    connect: Connect,
) -> None:
    mark = f"{'0' * 32}:7:{'0' * 16}"
    answers = json_answer(namespace="mail"), json_answer(namespace="mail"), json_answer(namespace="mail")
    with StubGateway(*answers) as stub, connect(stub.url, "mail", mark=mark) as gateway:
        gateway.delete_namespace(confirm="mail")
        gateway.delete_namespace()
        confirmed, plain = stub.asked
    assert (confirmed.method, confirmed.path) == ("DELETE", "/v1/namespaces/mail?confirm=mail")
    assert (plain.method, plain.path) == ("DELETE", "/v1/namespaces/mail")
    assert [one.headers.get("oncegate-ledger") for one in (confirmed, plain)] == [mark, None]


@pytest.mark.parametrize(("code", "wanted"), [("TOO_MANY_NAMESPACES", TooManyNamespaces), ("NOT_EMPTY", NotEmpty)])
def test_refusals_of_a_namespace_have_an_error_of_their_own(connect: Connect, code: str, wanted: type[Refused]) -> None:
    refusing = StubGateway(problem(409, code, "fix", holds={"ids": 2}))
    with refusing as stub, connect(stub.url, "mail") as gateway, pytest.raises(wanted) as refused:
        gateway.delete_namespace()
    assert (refused.value.outcome, refused.value.code) == (Outcome.NOT_WRITTEN, code)
    if isinstance(refused.value, NotEmpty):
        assert refused.value.holds == {"ids": 2}


def topic(low: list[int], high: list[int], schema: pa.Schema | None = SCHEMA) -> Answer:
    ipc = None if schema is None else base64.b64encode(schema.serialize().to_pybytes()).decode()
    ends = {"low_offsets": low, "high_offsets": high, "retention_ms": 5, "retention_bytes": 0}
    return json_answer(topic="t", partitions=len(low), schema="", schema_ipc=ipc, **ends)


def test_a_topic_is_described_with_its_schema_and_ends(connect: Connect) -> None:
    with StubGateway(topic([0, 3], [7, 9]), topic([0], [0], None)) as stub, connect(stub.url) as gateway:
        assert gateway.topic("t") == Topic("t", SCHEMA, (0, 3), (7, 9), 5, 0)
        assert gateway.topic("t").schema is None


def rows(first: int, count: int, high: int) -> Answer:
    batch = pa.RecordBatch.from_pydict({"n": pa.array(range(first, first + count), pa.int64())})
    headers = {"Oncegate-Next-Offset": str(first + count), "Oncegate-High-Offset": str(high)}
    return Answer(body=codecs.stream([batch]), headers=headers)


def test_reading_a_topic_goes_through_every_partition_up_to_its_end_as_it_was(connect: Connect) -> None:
    answers = [topic([0, 5, 0], [3, 7, 0]), rows(0, 2, 9), rows(2, 1, 9), rows(5, 2, 7)]
    with StubGateway(*answers) as stub, connect(stub.url) as gateway:
        table = gateway.read("t", columns=["n"])
        fetched = [urlsplit(asked.path) for asked in stub.asked[1:]]
    assert table.column("n").to_pylist() == [0, 1, 2, 5, 6]
    assert [one.path.split("/")[-2] for one in fetched] == ["0", "0", "1"]
    asked = [parse_qs(one.query) for one in fetched]
    assert [(one["offset"], one["max_rows"], one["columns"]) for one in asked] == [
        (["0"], ["3"], ["n"]),
        (["2"], ["1"], ["n"]),
        (["5"], ["2"], ["n"]),
    ]


def test_reading_a_topic_continues_after_rows_removed_by_retention(connect: Connect) -> None:
    gone = problem(410, "OFFSET_TRIMMED", "fix", low_offset=4)
    with StubGateway(topic([0], [6]), gone, rows(4, 2, 6)) as stub, connect(stub.url) as gateway:
        assert gateway.read("t").column("n").to_pylist() == [4, 5]


def test_a_trimmed_offset_is_answered_with_the_lowest_kept(connect: Connect) -> None:
    gone = problem(410, "OFFSET_TRIMMED", "fix", low_offset=4)
    with StubGateway(gone) as stub, connect(stub.url) as gateway, pytest.raises(OffsetTrimmed) as raised:
        gateway.fetch("t", 1)
    assert raised.value.low_offset == 4


def test_a_stage_may_choose_its_partitions_by_columns(connect: Connect) -> None:
    answer = json_answer(outcome="STAGED", rows=1, fingerprint="00" * 16, chunk=0)
    with StubGateway(answer) as stub, connect(stub.url) as gateway:
        gateway.stage(BatchName("app", "1", "t"), "owner", "ab" * 16, 0, b"body", key_col="a,b")
        assert parse_qs(urlsplit(stub.asked[0].path).query)["key_col"] == ["a,b"]


@pytest.mark.parametrize("columns", [["a,b"], [""], "a,,b", ","])
def test_a_column_name_that_cannot_be_sent_is_refused(connect: Connect, columns: Any) -> None:
    with StubGateway() as stub, connect(stub.url) as gateway:
        with pytest.raises(BadOption, match="comma"):
            gateway.fetch("t", columns=columns)
        with pytest.raises(BadOption, match="comma"):
            gateway.produce("t", "ab" * 16, 0, b"", columns)
        assert stub.asked == []


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"state": "DONE"}'])
def test_an_answer_that_cannot_be_read_is_never_taken_for_done(connect: Connect, body: bytes) -> None:
    with StubGateway(Answer(body=body)) as stub, connect(stub.url) as gateway:
        with pytest.raises(
            Unreadable, match=r"complete of claim c: the reply .* unknown: whether the claim is completed"
        ) as e:
            gateway.settle("c", "complete")
        assert e.value.outcome is Outcome.UNKNOWN
        assert len(stub.asked) == 1


def test_a_body_in_chunks_is_read_whole_and_one_that_is_cut_is_asked_for_again(connect: Connect) -> None:
    body = json.dumps({"text": "\r\n\r\n" * 50}).encode()
    whole, cut = Answer(body=body, chunked=4), Answer(body=body, chunked=4, cut=100)
    with StubGateway(cut, whole, whole) as stub, connect(stub.url) as gateway:
        assert gateway.describe() == gateway.describe() == json.loads(body)
        assert len(stub.asked) == 3
        assert stub.connections == 2


def test_a_produce_answer_names_partition_first_offset_and_rows(connect: Connect) -> None:
    answer = json_answer(rows=3, offsets=[{"partition": 1, "first_offset": 4, "rows": 3}])
    with StubGateway(answer) as stub, connect(stub.url) as gateway:
        produced = gateway.produce("t", "ab" * 16, 0, b"")
    assert (produced.rows, produced.offsets, produced.verdicts) == (3, (ProducedOffsets(1, 4, 3),), None)


def test_a_refusal_without_a_document_is_still_one(connect: Connect) -> None:
    with StubGateway(Answer(status=404, body=b"")) as stub, connect(stub.url) as gateway:  # noqa: SIM117
        with pytest.raises(Refused, match="HTTP_404"):
            gateway.topic("t")


def test_a_gateway_that_does_not_know_what_is_read_is_asked_without_it(connect: Connect) -> None:
    """For example a gateway of the previous version, which compares the other digests."""
    refused = problem(400, "BAD_REQUEST", "fix", detail="Object contains unknown field `reads_digest`")
    counts = {"rows": 0, "offsets": [], "suppressed_rows": 0, "takeover_rows": 0, "first_of_app": True}
    order = {"nonce": "0" * 32, "winners": [], "digest": "ab" * 32, "reads_digest": "cd" * 32}
    with StubGateway(refused, json_answer(outcome="COMMITTED", **counts)) as stub, connect(stub.url) as gateway:
        assert gateway.commit(BatchName("app", "0", "t"), order).outcome == "COMMITTED"
        first, second = map(members, stub.asked)
    assert first.pop("reads_digest") == "cd" * 32
    assert second == first


def test_a_gateway_that_does_not_compare_topics_is_asked_without_the_topic_s_id(connect: Connect) -> None:
    refused = problem(400, "BAD_REQUEST", "fix", detail="Object contains unknown field `topic_id`")
    with StubGateway(refused, json_answer(duplicates=[[1, 2]])) as stub, connect(stub.url) as gateway:
        assert gateway.ask_lane("t", "p", 1, 3, topic_id="A" * 22) == ((1, 2),)
    first, second = map(members, stub.asked)
    assert first.pop("topic_id") == "A" * 22
    assert second == first


def test_a_topic_s_id_that_is_refused_is_not_left_out(connect: Connect) -> None:
    refused = problem(400, "BAD_REQUEST", "fix", detail="topic_id: Kafka's id of a topic is 22 characters of base64url")
    with StubGateway(refused) as stub, connect(stub.url) as gateway:
        with pytest.raises(Refused, match="22 characters"):
            gateway.ask_lane("t", "p", 1, 3, topic_id="B" * 22)
        assert len(stub.asked) == 1


def test_another_refusal_of_a_commit_is_raised(connect: Connect) -> None:
    with StubGateway(problem(400, "BAD_REQUEST", "fix")) as stub, connect(stub.url) as gateway:
        with pytest.raises(Refused):
            gateway.commit(BatchName("app", "0", "t"), {"nonce": "0" * 32, "winners": [], "reads_digest": "cd" * 32})
        assert len(stub.asked) == 1
