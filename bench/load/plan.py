"""The extents of the long and the short form of the bench."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """The measured points and durations of a run of the bench.

    points: (ids per request, clients) of packed claims. live: number of prefilled ids.
    Each figure is the median of `rounds` runs of `seconds`, interleaved with the runs of its peers.

    A Redis that starts with `live` ids has a table of the next power of two. The ids added by a run must fit into it,
    plus an eighth for strings, or Redis would rehash during the measurement.
    """

    short: bool
    live: int
    rounds: int
    seconds: float
    points: tuple[tuple[int, int], ...]
    text_points: tuple[tuple[int, int], ...]
    single_clients: tuple[int, ...]
    open_seconds: float
    growth_ids: int
    kept_ids: int
    staged_rows: int
    lineitem_rows: int
    dedup_rows: int


LONG = Plan(
    short=False,
    live=10_000_000,
    rounds=3,
    seconds=1.2,
    points=((1, 64), (100, 64), (1_000, 16), (10_000, 1), (10_000, 16), (10_000, 64), (10_000, 256), (100_000, 8)),
    text_points=((1_000, 16), (10_000, 16)),
    single_clients=(64, 256),
    open_seconds=10.0,
    growth_ids=50_000_000,
    kept_ids=1_000_000,
    staged_rows=2_000_000,
    lineitem_rows=6_000_000,
    dedup_rows=10_000_000,
)

SHORT = Plan(
    short=True,
    live=1_200_000,
    rounds=2,
    seconds=0.4,
    points=((1_000, 16), (10_000, 16)),
    text_points=((10_000, 16),),
    single_clients=(64,),
    open_seconds=2.0,
    growth_ids=5_000_000,
    kept_ids=200_000,
    staged_rows=300_000,
    lineitem_rows=600_000,
    dedup_rows=500_000,
)
