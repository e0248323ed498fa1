"""One bucket's comparison, checked against dictionaries on random rows, and its file positions against their bounds."""

from collections import Counter
from random import Random

import numpy as np
import pytest

from oncegate.verifier.compare import OFFSET_MAX, compare, input_places, output_places, partition_and_offset
from oncegate.verifier.kinds import FindingKind, Standing

SEEDS = range(40)


def rows_of(ids: list[tuple[int, int]], places: np.ndarray) -> np.ndarray:
    return np.column_stack([np.array(ids, np.uint64).reshape(-1, 2), places])


def expected(
    given: list[tuple[int, int]], told: dict[tuple[int, int], Standing], written: list[tuple[int, int]]
) -> dict:
    """Returns the kind of each id of the input by the module's definitions, without a sort."""
    counts = Counter(written)
    kinds = {}
    for one in given:
        if counts[one] > 1:
            kinds[one] = FindingKind.DOUBLED
        elif counts[one] == 1:
            kinds[one] = FindingKind.OK if told[one] is Standing.KNOWN else FindingKind.UNRECORDED
        else:
            kinds[one] = {
                Standing.KNOWN: FindingKind.MISSING,
                Standing.HELD: FindingKind.HELD,
                Standing.FREE: FindingKind.NOT_WRITTEN,
            }[told[one]]
    return kinds


@pytest.mark.parametrize("seed", SEEDS)
def test_each_id_is_of_the_kind_that_a_dictionary_gives(seed: int) -> None:
    random = Random(seed)
    # Few distinct words, so that ids share their first one, their second one, or both.
    some = [(random.randrange(4), random.randrange(4)) for _ in range(random.randrange(60))]
    given, written = some[: len(some) // 2], some[len(some) // 2 :]
    told = {one: random.choice(list(Standing)) for one in given}
    flags = np.array([told[one] for one in given], np.uint8)
    found = compare(
        rows_of(given, input_places(1_000, flags)), rows_of(written, output_places(7, np.arange(len(written))))
    )
    kinds = expected(given, told, written)
    assert {
        given[int(row) - 1_000]: FindingKind(kind) for row, kind in zip(found.rows, found.kinds, strict=True)
    } == kinds
    assert sorted(int(row) - 1_000 for row in found.rows) == sorted({one: given.index(one) for one in given}.values())
    assert found.repeated == len(given) - len(set(given))
    foreign = [at for at, one in enumerate(written) if one not in told]
    assert sorted(partition_and_offset(int(place)) for place in found.foreign) == [(7, at) for at in foreign]
    assert found.foreign_ids == len({written[at] for at in foreign})
    doubled = [at for at, one in enumerate(written) if kinds.get(one) is FindingKind.DOUBLED]
    assert sorted(partition_and_offset(int(place))[1] for _, place in found.doubled) == doubled
    assert found.extra == len(doubled) - sum(kind is FindingKind.DOUBLED for kind in kinds.values())
    for row, place in found.doubled:
        assert given[int(row) - 1_000] == written[partition_and_offset(int(place))[1]]


def test_the_largest_places_are_read_as_they_were_written() -> None:
    (place,) = output_places((1 << 15) - 1, np.array([OFFSET_MAX])).tolist()
    assert partition_and_offset(place) == ((1 << 15) - 1, OFFSET_MAX)
