"""Verdicts, errors and decisions as tables: complete, unambiguous, and equal to the drawn tables."""

import re

import pytest

from oncegate.core import errors
from oncegate.core.cells import Cell
from oncegate.core.claims import (
    CLAIM,
    EXPIRED,
    LOOK_UP,
    PRODUCE,
    SETTLE,
    TAKE,
    Action,
    Asker,
    ClaimState,
    Effect,
    IdState,
    LeaseExpiry,
    Verb,
    actions,
    tables,
)
from oncegate.core.errors import OncegateError, Rejected, Retryable, Stop
from oncegate.core.verdicts import BY_BYTE, VERDICT_MASK, VERDICTS, Flag, Verdict
from tests.support.errors import all_errors

TABLES = pytest.mark.parametrize("table", [CLAIM, PRODUCE, TAKE, LOOK_UP], ids=["claim", "produce", "take", "look up"])
LEAVES = pytest.mark.parametrize("leaf", all_errors(), ids=lambda leaf: leaf.__name__)


def test_every_verdict_has_a_byte_of_its_own_and_none_is_zero() -> None:
    assert len(BY_BYTE) == len(VERDICTS)
    assert 0 not in BY_BYTE
    assert all(0 < byte < 256 for byte in BY_BYTE)


def test_a_verdict_and_its_flags_never_share_a_bit() -> None:
    assert all(verdict & VERDICT_MASK == verdict for verdict in Verdict)
    assert all(flag & VERDICT_MASK == 0 for flag in Flag)
    for byte, row in BY_BYTE.items():
        assert Verdict(byte & VERDICT_MASK) is row.verdict
        assert Flag(byte & ~VERDICT_MASK) == row.flags


def test_only_granted_may_be_written() -> None:
    assert {row.verdict for row in VERDICTS if row.may_write} == {Verdict.GRANTED}
    assert all(row.may_write for row in VERDICTS if row.verdict is Verdict.GRANTED)


def test_every_verdict_has_a_meaning_and_numbers_have_a_name() -> None:
    assert all(row.meaning for row in VERDICTS)
    assert {row.number for row in VERDICTS} == {None, "of_index", "of_call", "lease_left_ms"}


def test_every_verdict_and_every_flag_is_used() -> None:
    assert {row.verdict for row in VERDICTS} == set(Verdict)
    assert {flag for row in VERDICTS for flag in row.flags} == set(Flag)


def test_codes_of_errors_are_unique() -> None:
    codes = [leaf.code for leaf in all_errors()]
    assert len(set(codes)) == len(codes)


@LEAVES
def test_every_error_has_a_meaning_and_a_remedy(leaf: type[OncegateError]) -> None:
    assert re.fullmatch(r"[A-Z]+(_[A-Z]+)*", leaf.code)
    assert leaf.title
    assert leaf.title[0].isupper()
    assert leaf.action == {Retryable: "retry", Rejected: "fix", Stop: "stop"}[leaf.__mro__[1]]
    assert not leaf.__subclasses__(), "a leaf is caught by its own name"


@LEAVES
def test_only_retryable_errors_have_a_delay(leaf: type[OncegateError]) -> None:
    if not issubclass(leaf, Retryable):
        assert leaf.retry_after_ms is None


@LEAVES
def test_an_error_carries_its_sentence_and_its_members(leaf: type[OncegateError]) -> None:
    error = leaf("what happened", low_offset=3)
    assert (str(error), error.detail, error.extra) == ("what happened", "what happened", {"low_offset": 3})


def test_the_drawing_of_the_tree_is_the_tree() -> None:
    assert errors.__doc__ is not None
    drawn: dict[str, list[str]] = {}
    family = ""
    for line in errors.__doc__.splitlines():
        if match := re.match(r"  \+ (\w+)", line):
            family = match[1]
            drawn[family] = []
        elif match := re.match(r"    - ((?:\w+, )*\w+)", line):
            drawn[family] += match[1].split(", ")
    real = {f.__name__: [leaf.__name__ for leaf in f.__subclasses__()] for f in (Retryable, Rejected, Stop)}
    assert {family: sorted(leaves) for family, leaves in drawn.items()} == {
        family: sorted(leaves) for family, leaves in real.items()
    }


@TABLES
def test_no_cell_about_a_free_id_is_empty(table: dict[tuple[IdState, Asker], Cell[Action]]) -> None:
    assert set(table) == {(state, asker) for state in IdState for asker in Asker}
    assert all(cell.rule and cell.reason for cell in table.values())


def test_every_action_is_decided_somewhere() -> None:
    in_force = [cell for expiry in LeaseExpiry for table in tables(expiry).values() for cell in table.values()]
    assert {cell.effect for cell in in_force} == set(Action)


def test_no_cell_of_the_settle_table_is_empty() -> None:
    assert set(SETTLE) == {(verb, state) for verb in Verb for state in ClaimState}
    assert all(cell.rule and cell.reason for cell in SETTLE.values())
    assert {cell.effect for cell in SETTLE.values()} == set(Effect)


@TABLES
def test_a_table_as_bytes_is_that_table(table: dict[tuple[IdState, Asker], Cell[Action]]) -> None:
    compiled = actions(table)
    assert len(compiled) == len(IdState) * len(Asker)
    for (state, asker), cell in table.items():
        assert compiled[state * len(Asker) + asker] == cell.effect


@TABLES
def test_an_empty_cell_would_be_noticed(
    table: dict[tuple[IdState, Asker], Cell[Action]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(table, (IdState.DONE, Asker.REPEAT))
    with pytest.raises(KeyError):
        actions(table)


@pytest.mark.parametrize("expiry", LeaseExpiry)
def test_what_becomes_of_a_lease_that_ran_out_changes_no_other_cell(expiry: LeaseExpiry) -> None:
    changed = {cell[0] for by_verb in EXPIRED[expiry].values() for cell in by_verb}
    assert changed == (set() if expiry is LeaseExpiry.TAKEOVER else {IdState.CLAIMED_OVER})
    assert all(len(actions(table)) == len(IdState) * len(Asker) for table in tables(expiry).values())
    assert all(cell.rule and cell.reason for by_verb in EXPIRED[expiry].values() for cell in by_verb.values())


@pytest.mark.parametrize("expiry", [LeaseExpiry.HOLD, LeaseExpiry.FAIL])
def test_without_takeovers_only_the_holders_own_repeat_is_granted_an_expired_id(expiry: LeaseExpiry) -> None:
    over = {
        (verb, asker): table[IdState.CLAIMED_OVER, asker].effect
        for verb, table in tables(expiry).items()
        for asker in Asker
    }
    granting = {Action.GRANT, Action.GRANT_AGAIN, Action.TAKE_OVER}
    assert {key for key, action in over.items() if action in granting} == {("claim", Asker.SAME_CLAIM)}
    assert not {Action.DUPLICATE, Action.CONFLICT, Action.FREE} & set(over.values()), "it is not known to be written"
