"""The table of causes: every row is needed, every case has a row, and nothing is guessed."""

import pytest

from oncegate.core.causes import CAUSES, KNOWN_FROM, RELATIONS, Cause, Relation, WriterField, cases, cause_of
from oncegate.core.writers import WriterId, decode, encode


def test_every_cause_names_its_evidence() -> None:
    assert list(KNOWN_FROM) == list(Cause)


def test_every_way_in_which_two_writers_may_be_to_each_other_has_a_cause() -> None:
    found = [cause_of(*case) for case in cases()]
    assert len(found) == 2 * 2 * 4 * 5 * 4 * 4 * 5 * 5
    assert set(found) == set(Cause) - {Cause.CLIENT_RETRY}


# Written by hand: the purpose of each row, without which the table could contain anything.
BY_HAND = """
JOB           OTHER   -      OTHER_JOB
BATCH         OTHER   -      UPSTREAM
BATCH         ONE     -      UNKNOWN
RUN           OLDER   -      ZOMBIE
RUN           NEWER   -      BATCH_REPLAY
RUN           ONE     -      UNKNOWN
STAGE         OTHER   -      BATCH_REPLAY
STAGE         ONE     -      UNKNOWN
TASK          OTHER   -      UPSTREAM
TASK          ONE     -      UNKNOWN
STAGE_ATTEMPT OLDER   -      ZOMBIE
STAGE_ATTEMPT NEWER   -      STAGE_RETRY
STAGE_ATTEMPT ONE     -      UNKNOWN
ATTEMPT       OLDER   True   SPECULATION
ATTEMPT       OLDER   False  ZOMBIE
ATTEMPT       NEWER   True   SPECULATION
ATTEMPT       NEWER   False  TASK_RETRY
ATTEMPT       ONE     -      UNKNOWN
ATTEMPT       SAME    -      UPSTREAM
ATTEMPT       NEITHER -      TASK_RETRY
"""


def test_each_row_of_the_table_is_as_it_was_decided() -> None:
    rows = [
        [row.field.name, row.relation.name, "-" if row.speculates is None else str(row.speculates), row.cause.name]
        for row in CAUSES
    ]
    assert rows == [line.split() for line in BY_HAND.strip().splitlines()]


def test_every_row_is_the_first_that_fits_some_case() -> None:
    def row_of(relations: dict[WriterField, Relation], speculates: bool) -> int:
        fits = (relations[row.field] is row.relation and row.speculates in (None, speculates) for row in CAUSES)
        return list(fits).index(True)

    assert {row_of(*case) for case in cases()} == set(range(len(CAUSES)))


def test_unknown_is_only_what_one_of_the_two_does_not_name() -> None:
    unknown = [relations for relations, speculates in cases() if cause_of(relations, speculates) is Cause.UNKNOWN]
    assert unknown
    assert all(Relation.ONE in relations.values() for relations in unknown)


def test_a_field_without_an_order_is_never_older() -> None:
    assert [field for field in WriterField if Relation.OLDER in RELATIONS[field]] == [
        WriterField.RUN,
        WriterField.STAGE_ATTEMPT,
        WriterField.ATTEMPT,
        WriterField.SERIAL,
    ]
    assert all((Relation.OTHER in of) is (Relation.OLDER not in of) for of in RELATIONS.values())


@pytest.mark.parametrize(
    ("writer", "data"),
    [
        (WriterId("j"), b'{"job":"j"}'),
        (
            WriterId("j\u00e9", "r", "7", 1, 0, 3, 2, 9, True),
            '{"job":"j\u00e9","run":"r","batch":"7","stage":1,"stage_attempt":0,"task":3,"attempt":2,"serial":9,'
            '"speculation":true}'.encode(),
        ),
    ],
)
def test_a_writers_bytes_do_not_change_for_ledgers_hold_them(writer: WriterId, data: bytes) -> None:
    assert encode(writer) == data
    assert decode(data) == writer


def test_a_member_of_a_later_version_is_passed_over() -> None:
    assert decode(b'{"job":"j","colour":"red","task":1}') == WriterId("j", task=1)
