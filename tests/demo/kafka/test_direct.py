"""Direct writes: how rows of files are numbered, and where the flag is passed."""

import subprocess
import sys

import pyarrow as pa

from demo.kafka.job import FILE, SEQUENCE, numbered
from demo.plan import PLANS
from demo.proxy import kind_of
from tests.support.tree import ROOT


def batch(*files: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({FILE: list(files)})


def test_a_row_is_known_by_its_file_and_its_place_there_however_it_is_cut_into_batches() -> None:
    found = list(numbered(iter([batch("a", "a"), batch("a", "b"), batch("b")])))
    assert [one.column(SEQUENCE).to_pylist() for one in found] == [[0, 1], [2, 0], [1]]


def test_its_plans_are_those_on_kafka_with_one_way_more_which_meets_the_faults_of_a_gateway() -> None:
    for name in ("kafka", "kafka-short"):
        plain, direct = PLANS[name], PLANS[name.replace("kafka", "kafka-direct")]
        assert direct.ways[:-1] == plain.ways
        assert (direct.faults, direct.size) == (plain.faults, plain.size)
        assert direct.faults_of("direct") == plain.faults_of("staged")


def test_its_question_is_a_call_whose_answer_can_be_lost() -> None:
    assert kind_of("/v1/namespaces/direct/topics/departures-direct/lanes:ask") == "ask"


def test_without_a_broker_the_flag_is_refused_in_one_line() -> None:
    done = subprocess.run([sys.executable, "-m", "demo", "--direct"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "--direct goes with --kafka" in done.stderr
