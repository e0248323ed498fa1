"""Requests name their writer and program, for both clients; a gateway without that feature is supported too."""

import json
from typing import Any

import pyarrow as pa
import pytest

from oncegate_spark import BadOption, Refused, Unreadable, WriterId, __version__
from oncegate_spark.protocol.names import BatchName
from tests.support.clients import Connect
from tests.support.stub_gateway import Answer, StubGateway, problem
from tests.support.verdicts import GRANTED, packed

WRITER = WriterId(job="jöb", run="r", batch="7", stage=4, task=2, attempt=1, serial=9, speculation=True)
HEADER = '{"job":"j\\u00f6b","run":"r","batch":"7","stage":4,"task":2,"attempt":1,"serial":9,"speculation":true}'
UNKNOWN = problem(400, "BAD_REQUEST", "fix", detail="the header Oncegate-Writer is not taken here; none is taken")


def granted() -> Answer:
    return Answer(body=packed([GRANTED]))


def json_answer(**members: Any) -> Answer:
    return Answer(body=json.dumps(members).encode())


def test_the_header_is_json_in_ascii_without_what_is_not_said() -> None:
    assert WRITER.header() == HEADER
    assert WriterId(job="j", stage=0).header() == '{"job":"j","stage":0}'


@pytest.mark.parametrize(
    "wrong",
    [
        {"job": ""},
        {"job": 7},
        {"job": "j", "batch": 7},
        {"job": "j", "run": ""},
        {"job": "j", "stage": -1},
        {"job": "j", "task": 2**31},
        {"job": "j", "attempt": True},
        {"job": "j", "serial": "1"},
    ],
)
def test_a_writer_that_the_gateway_would_refuse_is_refused_where_it_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match=r"of a writer is .* nothing was sent"):
        WriterId(**wrong)
    assert WriterId(job="j", task=2**31 - 1)


def test_claims_takes_and_writes_name_the_writer_and_other_requests_do_not(connect: Connect) -> None:
    with StubGateway() as stub, connect(stub.url, writer=WRITER) as gateway:
        settled = json_answer(claim="c", state="DONE", settled=1, taken_over=0, lease_ms=0)
        stub.answers += [granted(), granted(), granted(), settled]
        gateway.claim("ab" * 16, 0, [pa.array(["a"])])
        gateway.take("o", ["a"])
        gateway.look_up(["a"])
        gateway.settle("c" * 26, "complete")
        named = {asked.path.rpartition("/")[2]: asked.headers.get("oncegate-writer") for asked in stub.asked}
    assert named == {"ids:claim": HEADER, "ids:take": HEADER, "ids:lookup": None, f"{'c' * 26}:complete": None}


def test_registering_names_it_for_a_producer_and_not_for_a_driver(connect: Connect) -> None:
    with StubGateway() as stub, connect(stub.url, writer=WRITER) as gateway:
        for lane in (gateway.driver("d"), gateway.producer("p", driver="d")):
            with pytest.raises(Unreadable):  # the stub's answer
                lane.register()
        assert ["oncegate-writer" in asked.headers for asked in stub.asked] == [False, True]


def test_every_request_names_the_program(connect: Connect) -> None:
    with StubGateway() as stub, connect(stub.url) as gateway:
        gateway.describe()
        gateway.limits()
        programs = {asked.headers["user-agent"] for asked in stub.asked}
        assert "oncegate-writer" not in stub.asked[0].headers
    assert len(stub.asked) == 2
    assert programs <= {f"oncegate-python/{__version__}", f"oncegate-spark/{__version__}"}


def test_a_gateway_that_does_not_know_the_header_is_asked_without_it(connect: Connect) -> None:
    with StubGateway(UNKNOWN, granted(), granted()) as stub, connect(stub.url, writer=WRITER) as gateway:
        gateway.claim("ab" * 16, 0, [pa.array(["a"])])
        gateway.claim("ab" * 16, 1, [pa.array(["b"])])
        assert ["oncegate-writer" in asked.headers for asked in stub.asked] == [True, False, False]
        assert stub.asked[0].body == stub.asked[1].body


def test_any_other_refusal_is_raised(connect: Connect) -> None:
    other = problem(400, "BAD_REQUEST", "fix", detail="Oncegate-Writer cannot be read: nothing was written")
    with StubGateway(other) as stub, connect(stub.url, writer=WRITER) as gateway:
        with pytest.raises(Refused, match="cannot be read"):
            gateway.claim("ab" * 16, 0, [pa.array(["a"])])
        assert len(stub.asked) == 1


def test_a_twin_names_the_same_writer(connect: Connect) -> None:
    with StubGateway() as stub, connect(stub.url, writer=WRITER) as gateway:
        assert gateway.twin().calls.tries.writer == WRITER


def test_a_commit_names_it_and_an_abort_does_not(connect: Connect) -> None:
    done = json_answer(outcome="COMMITTED", rows=0, offsets=[], suppressed_rows=0, takeover_rows=0, first_of_app=True)
    gone = json_answer(outcome="DROPPED")
    with StubGateway(done, gone) as stub, connect(stub.url, writer=WRITER) as gateway:
        gateway.commit(BatchName("app", "7", "t"), {"run": None, "nonce": "0" * 32, "winners": []})
        gateway.abort(BatchName("app", "7", "t"), ["ab" * 16])
        assert ["oncegate-writer" in asked.headers for asked in stub.asked] == [True, False]
