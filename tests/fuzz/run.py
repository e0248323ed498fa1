"""Reads damaged bytes of one format until a read ends in an unexpected way, or all are read."""

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.damage import damaged
from tests.fuzz.formats import Format


def fuzzed(one: Format, examples: int, number: int) -> None:
    """Raises an exception of a reader that is not among its refusals, with the smallest bytes that cause it.

    `number`: the seed; the same seed reads the same bytes.
    """

    @seed(number)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
        print_blob=False,
    )
    @given(damaged(one.samples()))
    def read(data: bytes) -> None:
        try:
            one.read(data)
        except one.refused:
            pass
        except Exception as error:
            error.add_note(f"{one.name}: bytes.fromhex({data.hex()!r})")
            raise

    read()
