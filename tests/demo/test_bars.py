"""The demo's progress, on a narrow terminal and through a pipe."""

import io
import re

import pytest
from rich.console import Console

from demo.bars import Bars, signs
from demo.events import Event
from demo.plan import EMBEDDED, KAFKA, Plan

# The sequences that move a terminal's cursor.
MOVES = re.compile(r"\x1b\[[0-9?;]*[A-Za-z]|\r")
BATCHES = EMBEDDED.size.batches
STRUCK: list[Event] = [{"kind": "injected", "fault": "task_error"}]


@pytest.mark.parametrize("plan", [EMBEDDED, KAFKA], ids=lambda plan: plan.name)
@pytest.mark.parametrize(("width", "shown"), [(80, "! · · · ·"), (180, "! task_error · worker_kill")])
def test_name_bar_and_count_can_be_read_on_a_terminal_of_any_width(plan: Plan, width: int, shown: str) -> None:
    written = io.StringIO()
    names = [way.name for way in plan.ways]
    with Bars(Console(width=width, force_terminal=True, color_system=None, file=written), plan) as bars:
        for name in names:
            bars.of(name)(BATCHES, STRUCK)
    for name in names:
        lines = [
            line for line in re.sub(MOVES, "\n", written.getvalue()).splitlines() if line.strip().startswith(f"{name} ")
        ]
        assert lines[-1].count("━") == 20, lines
        assert f"{BATCHES}/{BATCHES} batches" in lines[-1]
        assert shown in lines[-1]


def test_a_line_comes_through_a_pipe_each_ten_seconds_and_at_the_end_of_a_run() -> None:
    written, now_s = io.StringIO(), [0.0]
    with Bars(Console(width=80, file=written), EMBEDDED, lambda: now_s[0]) as bars:
        tell = bars.of("plain")
        for at_s, batches in [(1, 0), (9, 1), (10, 2), (11, 2), (19, 3), (20, 3), (21, BATCHES), (22, BATCHES)]:
            now_s[0] = at_s
            tell(batches, STRUCK)
    lines = [line.split() for line in written.getvalue().splitlines() if line.strip()]
    assert [(line[1], line[3]) for line in lines] == [
        (f"2/{BATCHES}", "10"),
        (f"3/{BATCHES}", "20"),
        (f"{BATCHES}/{BATCHES}", "21"),
    ]


def test_a_way_without_a_gateway_waits_for_no_fault_of_one() -> None:
    assert [len(KAFKA.faults_of(way.name)) for way in KAFKA.ways] == [5, 8, 8]
    assert signs(KAFKA.faults_of("kafka"), STRUCK, named=False).count("·") == 4
