"""The table of what the outside is told about each error."""

import pytest

from oncegate.core.errors import OncegateError, all_errors
from oncegate.transports.http import problems
from oncegate.transports.outcomes import OUTCOMES, outcome_of, told
from tests.support.http_app import open_door


def test_every_error_of_the_tree_has_a_row_and_no_row_is_left_over() -> None:
    assert set(OUTCOMES) == set(all_errors())


@pytest.mark.parametrize("kind", told(), ids=lambda kind: kind.code)
def test_a_status_agrees_with_what_the_caller_is_to_do(kind: type[OncegateError]) -> None:
    status = outcome_of(kind("")).status
    allowed = {"retry": {409, 429, 500, 503, 504, 507}, "fix": set(range(400, 500)), "stop": {403, 404, 409}}
    assert status in allowed[kind.action]


def test_only_a_failed_ledger_and_a_bug_leave_it_unknown_whether_something_was_written() -> None:
    assert {kind.code for kind in told() if outcome_of(kind("")).effect == "unknown"} == {"LEDGER_DOWN", "INTERNAL"}


def test_codes_are_unique() -> None:
    codes = [kind.code for kind in told()]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("kind", told(), ids=lambda kind: kind.code)
async def test_the_type_of_every_problem_leads_to_a_page_of_this_gateway(kind: type[OncegateError]) -> None:
    async with open_door() as door:
        reply = await door.get(problems.type_of(kind.code))
    assert reply.status == 200
    assert reply.json["code"] == kind.code
    assert reply.json["action"] == kind.action
