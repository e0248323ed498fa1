"""A ledger without an optional ability passes the rest of the suite, and the skipped checks are listed by name."""

from collections.abc import AsyncIterable, Sequence

import pytest

from oncegate.core.errors import LedgerFull
from oncegate.ports import LEAVING_OUT, Ability, Mark, OutputChange
from oncegate.testing import check_ledger
from oncegate.testing.broken.base import Broken
from oncegate.testing.broken.ledgers import BREAKS, broken
from oncegate.testing.ledger_checks import CHECKS, why_skipped
from oncegate.testing.ledger_places import MakePlace
from oncegate.testing.output_checks import OUTPUT_CHECKS
from tests.testing.places import memory_place, without_outputs


class CompactsNever(Broken):
    """A ledger without compaction, as the table of abilities allows."""

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        raise LedgerFull("this ledger is never compacted; nothing was changed")


class RefusesRows(Broken):
    """A ledger without rows, as the table of abilities allows."""

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        if outputs:
            raise ValueError("this ledger holds no rows; nothing was written")
        return await super().append(entries, outputs)


LACKING: dict[Ability, MakePlace] = {
    Ability.OUTPUTS: without_outputs(broken(memory_place, RefusesRows)),
    Ability.COMPACTION: broken(memory_place, CompactsNever),
}


def test_each_ability_that_may_be_left_out_has_its_consequence_described() -> None:
    assert set(LEAVING_OUT) == set(Ability)
    assert set().union(*CHECKS.values()) == set(Ability)


async def test_a_ledger_that_leaves_nothing_out_is_checked_in_everything() -> None:
    assert await check_ledger(memory_place) == {}


@pytest.mark.parametrize("ability", LACKING)
async def test_a_ledger_without_an_ability_passes_the_rest_and_gets_a_list_of_what_was_skipped(
    ability: Ability,
) -> None:
    skipped = await check_ledger(LACKING[ability], {ability})
    assert set(skipped) == {check.__name__ for check, needs in CHECKS.items() if ability in needs}
    assert set(skipped.values()) == {f"the ledger leaves out {ability}"}


@pytest.mark.parametrize("ability", LACKING)
async def test_a_ledger_that_does_not_declare_what_it_leaves_out_fails(ability: Ability) -> None:
    with pytest.raises((AssertionError, LedgerFull)):
        await check_ledger(LACKING[ability])


def test_what_needs_several_abilities_is_skipped_for_each() -> None:
    both = [check for check, needs in CHECKS.items() if needs == {Ability.OUTPUTS, Ability.COMPACTION}]
    assert both
    for check in both:
        assert why_skipped(check, {Ability.OUTPUTS}) == "the ledger leaves out outputs"
        assert why_skipped(check, list(Ability)) == "the ledger leaves out compaction, outputs"
        assert why_skipped(check, {Ability.NAMESPACES}) is None


@pytest.mark.parametrize(
    "breaks",
    [breaks for breaks, check in BREAKS.items() if Ability.OUTPUTS not in CHECKS[check]],
    ids=lambda breaks: breaks.__name__,
)
async def test_without_rows_the_suite_still_catches_a_ledger_that(breaks: type[Broken]) -> None:
    with pytest.raises(AssertionError, match="a ledger must: "):
        await check_ledger(without_outputs(broken(memory_place, breaks)), {Ability.OUTPUTS})


def test_no_check_of_rows_is_one_of_every_ledger() -> None:
    assert all(Ability.OUTPUTS in CHECKS[check] for check in OUTPUT_CHECKS)
