"""Reads damaged bytes of one format until one read ends otherwise than it may, or all are read."""

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.damage import damaged
from tests.fuzz.formats import Format


def fuzzed(one: Format, examples: int, number: int) -> None:
    """Raises what a reader raised that is none of its refusals; the smallest bytes that do it are told with it.

    `number`: the seed; the same one reads the same bytes.
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
