"""The ways to write chosen by the option `guarantee`, and its refusals."""

import pytest

from oncegate_spark.errors import BadOption
from oncegate_spark.spark.options import PROMISES, Options
from oncegate_spark.spark.options.table import WRITE_MODES

TOPIC = {"url": "http://127.0.0.1:8080", "path": "t"}
ID, LANE = {"idCol": "id"}, {"producerCol": "p", "sequenceCol": "s"}
SINK = {"sink": "a:b"}


@pytest.mark.parametrize(
    ("guarantee", "given", "write"),
    [
        ("effectively_once", {}, "staged"),
        ("effectively_once", ID, "ids"),
        ("effectively_once", LANE, "ids"),
        ("at_least_once", {}, "plain"),
        ("at_least_once", ID, "ids"),
        ("at_least_once", ID | SINK, "claim"),
        ("at_least_once", LANE | SINK, "claim"),
    ],
)
def test_a_guarantee_chooses_the_mode_that_keeps_it(guarantee: str, given: dict[str, str], write: str) -> None:
    assert Options.read({**TOPIC, **given, "guarantee": guarantee}).write == write


@pytest.mark.parametrize(
    ("guarantee", "given", "write"),
    [
        ("at_least_once", {}, "staged"),
        ("at_least_once", ID, "ids"),
        ("at_least_once", ID | SINK, "claim"),
        ("effectively_once", ID, "ids"),
        ("effectively_once", {}, "staged"),
    ],
)
def test_a_mode_that_keeps_no_less_is_taken_as_it_is_given(guarantee: str, given: dict[str, str], write: str) -> None:
    assert Options.read({**TOPIC, **given, "guarantee": guarantee, "write": write}).write == write


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"guarantee": "effectively_once", "write": "plain"},
            "write=plain guarantees at_least_once at most .*staged or ids or direct",
        ),
        (
            {"guarantee": "effectively_once", "write": "claim", **ID, **SINK},
            "write=claim guarantees at_least_once at most",
        ),
        ({"guarantee": "effectively_once", **ID, **SINK}, r'cannot undo.*option\("guarantee", "at_least_once"\)'),
        ({"guarantee": "at_least_once", **SINK}, r'write=claim .*option\("idCol"'),
        ({"guarantee": "at_most_once"}, "not supported by any write mode: .*dedup"),
        ({"guarantee": "exactly_once"}, "guarantee is 'exactly_once'; it must be one of effectively_once"),
        ({"guarantee": "effectively_once", "write": "direct"}, "recognises a row only by its sequence"),
    ],
)
def test_what_no_mode_or_not_the_given_one_keeps_is_refused(given: dict[str, str], told: str) -> None:
    with pytest.raises(BadOption, match=told):
        Options.read({**TOPIC, **given})


def test_each_write_mode_has_its_promise() -> None:
    assert set(PROMISES) == set(WRITE_MODES)
