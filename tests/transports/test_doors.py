"""A table of scenarios over HTTP and gRPC: each call gets the same answer or refusal over both."""

from typing import Any

import pytest

from tests.support.door_scenarios import DOORS, SCENARIOS, comparable, play, summary
from tests.support.grpc_app import both


@pytest.mark.parametrize("name", SCENARIOS)
async def test_each_door_answers_each_call_of_a_scenario_alike(name: str) -> None:
    told = {way: await played(way, name) for way in DOORS}
    assert [summary(answer) for answer in told["http"]] == [wanted for *_, wanted in SCENARIOS[name]]
    for way, answers in told.items():
        assert list(map(comparable, answers)) == list(map(comparable, told["http"])), way


async def played(way: str, name: str) -> list[Any]:
    async with both() as doors:
        return await play(DOORS[way](doors), SCENARIOS[name])
