"""The table of public outcomes of errors."""

import pytest

from oncegate.core.errors import OncegateError
from oncegate.transports.http import problems
from oncegate.transports.outcomes import OUTCOMES, OutcomeKind, outcome_of, public_errors
from tests.support.errors import all_errors
from tests.support.http_app import open_http


def test_every_error_of_the_tree_has_a_row_and_no_row_is_left_over() -> None:
    assert set(OUTCOMES) == set(all_errors())


def test_every_kind_has_a_status_of_its_own_and_maps_to_an_error() -> None:
    assert set(problems.STATUS) == set(OutcomeKind)
    assert len(set(problems.STATUS.values())) == len(OutcomeKind)
    assert {outcome_of(kind).kind for kind in public_errors()} == set(OutcomeKind)


# All others: 409.
STATUSES = {
    400: "BAD_REQUEST",
    401: "UNAUTHENTICATED",
    403: "NOT_DRIVER FOREIGN_ORIGIN FORBIDDEN",
    404: "NOT_FOUND UNKNOWN_PRODUCER UNKNOWN_DRIVER UNKNOWN_CLAIM",
    405: "METHOD_NOT_ALLOWED",
    406: "NOT_ACCEPTABLE",
    408: "BODY_TOO_SLOW",
    410: "OFFSET_TRIMMED",
    411: "LENGTH_REQUIRED",
    413: "TOO_LARGE",
    414: "TARGET_TOO_LONG",
    415: "UNSUPPORTED_MEDIA",
    416: "OFFSET_BEYOND_END",
    421: "MISDIRECTED",
    422: "NULL_ID TOKEN_REUSED CHUNK_ALTERED",
    429: "QUOTA TOO_MANY_NAMESPACES",
    431: "HEAD_TOO_LARGE",
    500: "INTERNAL",
    503: "KEYS_UNREAD OVERLOADED STOPPING RECOVERING LEDGER_DOWN LEDGER_FENCED",
    504: "DEADLINE",
    507: "LEDGER_FULL",
}


@pytest.mark.parametrize("kind", public_errors(), ids=lambda kind: kind.code)
def test_every_error_has_the_status_that_callers_know(kind: type[OncegateError]) -> None:
    listed = [status for status, codes in STATUSES.items() if kind.code in codes.split()]
    assert [problems.status_of(kind)] == (listed or [409])


@pytest.mark.parametrize("kind", public_errors(), ids=lambda kind: kind.code)
def test_a_status_agrees_with_what_the_caller_is_to_do(kind: type[OncegateError]) -> None:
    status = problems.status_of(kind)
    allowed = {"retry": {408, 409, 429, 500, 503, 504, 507}, "fix": set(range(400, 500)), "stop": {403, 404, 409}}
    assert status in allowed[kind.action]


def test_only_a_failed_ledger_and_a_bug_leave_it_unknown_whether_something_was_written() -> None:
    assert {kind.code for kind in public_errors() if outcome_of(kind).effect == "unknown"} == {
        "LEDGER_DOWN",
        "INTERNAL",
    }


def test_codes_are_unique() -> None:
    codes = [kind.code for kind in public_errors()]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("kind", public_errors(), ids=lambda kind: kind.code)
async def test_the_type_of_every_problem_leads_to_a_page_of_this_gateway(kind: type[OncegateError]) -> None:
    async with open_http() as http:
        reply = await http.get(problems.type_of(kind.code))
    assert reply.status == 200
    assert reply.json["code"] == kind.code
    assert reply.json["action"] == kind.action
