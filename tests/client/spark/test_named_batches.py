"""Named batches for custom sinks: the arguments of the function, its calls, and the refusals before it."""

from pathlib import Path
from typing import Any

import pytest

from deploy.ports import free_port
from oncegate_spark import BadOption, BatchConflict, Gateway, NamedBatch, NamedBatches, Unreachable, foreach_batch
from tests.support.data_frame import Frame

pytestmark = pytest.mark.server


class Died(Exception):
    pass


class Job:
    """A query's checkpoint, and the calls of its function."""

    def __init__(self, gateway: Gateway, folder: Path, **given: Any) -> None:
        self.folder = folder
        self.called: list[NamedBatch] = []
        place = {"url": gateway.url, "namespace": gateway.namespace, "sink": "departures", "app": "etl"}
        self.named = NamedBatches(**{**place, **given})

    def run(self, number: int, entry: str = "v1", dies: bool = False, named: NamedBatches | None = None) -> None:
        (self.folder / "offsets").mkdir(exist_ok=True)
        (self.folder / "offsets" / str(number)).write_text(entry)

        def fn(df: Any, batch: NamedBatch) -> None:
            self.called.append(batch)
            if dies:
                raise Died

        foreach_batch(fn, checkpoint=str(self.folder), named=named or self.named)(Frame(), number)


@pytest.fixture
def job(gateway: Gateway, tmp_path: Path) -> Job:
    return Job(gateway, tmp_path)


def test_a_batch_has_a_name_of_its_own_and_is_open(job: Job) -> None:
    job.run(0)
    job.run(1)
    assert [(one.name, one.state, one.number) for one in job.called] == [
        ("etl@departures/0", "OPEN", 0),
        ("etl@departures/1", "OPEN", 1),
    ]


def test_an_attempt_that_died_leaves_it_open_and_the_next_has_a_greater_fence(job: Job) -> None:
    with pytest.raises(Died):
        job.run(0, dies=True)
    job.run(0)
    first, second = job.called
    assert (first.name, second.state) == (second.name, "OPEN")
    assert first.fence < second.fence


def test_fences_grow_from_batch_to_batch_and_each_sink_has_its_own_names(job: Job, gateway: Gateway) -> None:
    other = NamedBatches(gateway.url, "arrivals", gateway.namespace, "etl")
    job.run(0)
    job.run(0, named=other)
    job.run(1)
    departures = [one.fence for one in job.called if one.job == "etl@departures"]
    assert departures == sorted(set(departures))
    assert [one.state for one in job.called] == ["OPEN"] * 3


def test_a_replay_of_a_committed_batch_is_not_written_again(job: Job) -> None:
    job.run(0)
    job.run(0)
    assert len(job.called) == 1


def test_a_job_that_asks_for_replays_sees_the_batch_as_committed(gateway: Gateway, tmp_path: Path) -> None:
    job = Job(gateway, tmp_path, replays=True)
    job.run(0)
    job.run(0)
    assert [one.state for one in job.called] == ["OPEN", "COMMITTED"]
    assert job.called[0].fence < job.called[1].fence


def test_another_input_under_a_committed_number_stops_before_the_function(job: Job) -> None:
    job.run(0)
    with pytest.raises(BatchConflict):
        job.run(0, "v1\nanother")
    assert len(job.called) == 1


def test_without_the_input_or_the_gateway_the_function_is_not_called(job: Job) -> None:
    with pytest.raises(BadOption, match="input of this batch is unknown"):
        foreach_batch(lambda df, batch: job.called.append(batch), named=job.named)(Frame(), 0)
    where = {"url": f"http://127.0.0.1:{free_port()}", "sink": "departures", "app": "etl"}
    nobody: dict[str, Any] = {**where, "timeout_ms": 1_000}
    with pytest.raises(Unreachable):
        job.run(0, named=NamedBatches(**nobody))
    with pytest.raises(Unreachable, match="on_down allows no further retries, after 1 tries"):
        job.run(0, named=NamedBatches(**nobody, on_down="fail"))
    with pytest.raises(BadOption, match="here it must be block or fail"):
        NamedBatches("http://127.0.0.1:1", "departures", on_down="spill")
    with pytest.raises(BadOption, match="sink 'a b'"):
        NamedBatches("http://127.0.0.1:1", "a b")
    assert job.called == []
