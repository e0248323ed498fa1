"""The time up to which an id is past: no id is past if all are known, else those from the first millisecond that may be
forgotten."""

import pytest

from oncegate.core.claims import ID_TIME_SKEW_MS, past_ms

HOUR_MS, NOW_MS = 3_600_000, 1_800_000_000_000


@pytest.mark.parametrize(
    ("horizon_ms", "known_from_ms", "past"),
    [
        (0, 0, 0),
        (0, 1, 1 + ID_TIME_SKEW_MS),
        (NOW_MS, 0, 0),
        (NOW_MS - 1, 0, 1 + ID_TIME_SKEW_MS),
        (HOUR_MS, 0, NOW_MS - HOUR_MS + ID_TIME_SKEW_MS),
        (HOUR_MS, NOW_MS - HOUR_MS, NOW_MS - HOUR_MS + ID_TIME_SKEW_MS),
        (HOUR_MS, NOW_MS - HOUR_MS + 1, NOW_MS - HOUR_MS + 1 + ID_TIME_SKEW_MS),
    ],
)
def test_an_id_is_past_by_the_later_of_the_horizon_and_what_is_known_from(
    horizon_ms: int, known_from_ms: int, past: int
) -> None:
    assert past_ms(horizon_ms, known_from_ms, NOW_MS) == past
