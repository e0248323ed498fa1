"""Writers of duplicates compared with those of their firsts, in arrays: every case of the table."""

from typing import Any

import numpy as np
import pytest

from oncegate.core.causes import Cause, Relation, WriterField, cases, cause_of
from oncegate.core.writers import WriterId, encode
from oncegate.index.writers import WORDS, RunOrder, cause_between, causes_of, is_newer_run, words_of

# By relation: the names of the present writer and of the first one.
_NAMES = {Relation.NEITHER: (None, None), Relation.SAME: ("x", "x"), Relation.OTHER: ("x", "y")}
_NUMBERS = {Relation.NEITHER: (None, None), Relation.SAME: (4, 4), Relation.OLDER: (4, 5), Relation.NEWER: (5, 4)}
_RUNS = {Relation.OLDER: ("old", "new"), Relation.NEWER: ("new", "old")}
_IS_NAME = {WriterField.JOB, WriterField.BATCH}


def pair(field: WriterField, relation: Relation) -> tuple[Any, Any]:
    if relation is Relation.ONE:
        return ("x" if field in (*_IS_NAME, WriterField.RUN) else 4), None
    if field is WriterField.RUN:
        return (_RUNS | _NAMES)[relation]
    return _NAMES[relation] if field in _IS_NAME else (_NUMBERS | {Relation.OTHER: (4, 5)})[relation]


def named(**fields: Any) -> bytes:
    return encode(WriterId(**{"job": "x"} | fields))


def both(relations: dict[WriterField, Relation]) -> tuple[bytes, bytes]:
    """Returns a present writer and a first one with these relations."""
    pairs = {field.name.lower(): pair(field, relation) for field, relation in relations.items()}
    mine, first = ({name: two[at] for name, two in pairs.items()} for at in (0, 1))
    return named(**mine), named(**first)


@pytest.fixture
def runs() -> RunOrder:
    order = RunOrder()
    for job in ("x", "y"):
        order.note(named(job=job, run="old"))
        order.note(named(job=job, run="new"))
    return order


def test_each_case_of_the_table_is_answered_accordingly(runs: RunOrder) -> None:
    by_case = [(both(relations), relations, speculates) for relations, speculates in cases()]
    for (mine, first), relations, speculates in by_case:
        data = mine[:-1] + b',"speculation":true}' if speculates else mine
        assert cause_between(data, first, runs) is cause_of(relations, speculates), (relations, speculates)


def test_one_that_only_the_first_names_is_as_unknown_as_one_that_only_the_present_names(runs: RunOrder) -> None:
    assert cause_between(named(), named(batch="7"), runs) is Cause.UNKNOWN
    assert cause_between(named(batch="7"), named(), runs) is Cause.UNKNOWN


def test_nothing_is_known_of_what_has_no_writer(runs: RunOrder) -> None:
    assert cause_between(b"", named(), runs) is Cause.UNKNOWN
    assert cause_between(named(), b"", runs) is Cause.UNKNOWN
    assert causes_of(np.zeros((0, WORDS), np.uint32), named(), runs).tolist() == []


def test_many_firsts_are_reported_one_by_one(runs: RunOrder) -> None:
    firsts = [b"", named(batch="1"), named(job="y"), named(batch="2"), named(batch="1", run="new")]
    words = np.array([words_of(one) for one in firsts])
    mine = named(batch="1", run="old")
    assert causes_of(words, mine, runs).tolist() == [
        Cause.UNKNOWN,
        Cause.UNKNOWN,
        Cause.OTHER_JOB,
        Cause.UPSTREAM,
        Cause.ZOMBIE,
    ]


SPARK = {"run": "new", "batch": "7", "stage": 4, "task": 2}


@pytest.mark.parametrize(
    ("first", "mine", "cause"),
    [
        ((0, 10), (1, 11), Cause.TASK_RETRY),
        ((0, 10), (0, 11), Cause.STAGE_RETRY),
        ((1, 10), (0, 11), Cause.STAGE_RETRY),
        ((0, 11), (0, 10), Cause.ZOMBIE),
        ((0, 11), (1, 10), Cause.ZOMBIE),
        ((1, 11), (0, 10), Cause.ZOMBIE),
        ((0, 10), (0, 10), Cause.UPSTREAM),
    ],
)
def test_the_order_of_all_attempts_reveals_a_repeated_stage(
    first: tuple[int, int], mine: tuple[int, int], cause: Cause, runs: RunOrder
) -> None:
    """(attempt, serial): within one attempt of a stage the former rises with the latter."""
    one, other = (named(**SPARK, attempt=attempt, serial=serial) for attempt, serial in (mine, first))
    assert cause_between(one, other, runs) is cause


def test_a_stage_attempt_that_is_named_counts_before_the_order_of_attempts(runs: RunOrder) -> None:
    mine, first = (named(**SPARK, stage_attempt=0, attempt=0, serial=serial) for serial in (9, 3))
    assert cause_between(mine, first, runs) is Cause.UPSTREAM


def test_an_older_run_is_one_that_wrote_before_the_other_did() -> None:
    runs = RunOrder()
    a, b = named(run="a", batch="1"), named(run="b", batch="1")
    assert cause_between(a, b, runs) is Cause.BATCH_REPLAY, "nobody saw either"
    runs.note(a)
    assert cause_between(b, a, runs) is Cause.BATCH_REPLAY, "it has not written yet"
    runs.note(b)
    assert cause_between(b, a, runs) is Cause.BATCH_REPLAY
    assert cause_between(a, b, runs) is Cause.ZOMBIE
    runs.note(a)
    assert cause_between(a, b, runs) is Cause.ZOMBIE, "writing again makes it no newer"
    assert is_newer_run(b"b", a, runs)
    assert not is_newer_run(b"a", a, runs)
    assert not is_newer_run(b"a", b, runs)
    assert not is_newer_run(None, a, runs)


def test_runs_are_of_one_job_alone() -> None:
    runs = RunOrder()
    for job, run in (("x", "a"), ("y", "b"), ("x", "b")):
        runs.note(named(job=job, run=run))
    assert cause_between(named(job="y", run="a", batch="1"), named(job="y", run="b", batch="1"), runs) is (
        Cause.BATCH_REPLAY
    )


def test_the_last_runs_of_a_job_are_kept_and_of_the_last_jobs() -> None:
    runs = RunOrder()
    for number in range(9):
        runs.note(named(run=f"r{number}"))
    assert not is_newer_run(b"r8", named(run="r0"), runs), "forgotten"
    assert is_newer_run(b"r8", named(run="r1"), runs)
    for number in range(4_095):
        runs.note(named(job=f"j{number}", run="r"))
    assert is_newer_run(b"r8", named(run="r1"), runs)
    runs.note(named(job="one more", run="r"))
    assert not is_newer_run(b"r8", named(run="r1"), runs)


def test_a_saved_order_is_a_copy_and_comes_back() -> None:
    runs, restored = RunOrder(), RunOrder()
    runs.note(named(run="a"))
    saved = runs.snapshot()
    runs.note(named(run="b"))
    restored.restore(saved)
    assert not is_newer_run(b"b", named(run="a"), restored)
    restored.note(named(run="b"))
    assert is_newer_run(b"b", named(run="a"), restored)
    assert saved == runs.snapshot() or len(next(iter(saved.values()))) == 1, "a saved state does not change"


@pytest.mark.parametrize(
    "data", [b"no JSON", b"[1]", b'{"run":"r"}', b'{"job":"j","task":"3"}', b'{"job":"j","task":-9}']
)
def test_bytes_that_are_no_writer_are_nobodys_and_keep_no_ledger_from_being_read(data: bytes) -> None:
    assert not words_of(data).any()
    RunOrder().note(data)


def test_words_cannot_be_changed_by_their_holders() -> None:
    for data in (b"", named()):
        with pytest.raises(ValueError, match="read-only"):
            words_of(data)[0] = 1
