"""One try of some piece of work, and the claims it makes."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from oncegate_spark import codecs
from oncegate_spark.codecs import Verdicts
from oncegate_spark.errors import BadId, NotCompleted, StillBusy
from oncegate_spark.protocol import new_token

if TYPE_CHECKING:
    from oncegate_spark.client import Gateway

log = logging.getLogger("oncegate_spark")

Ids = Iterable[Any]  # str, bytes, int, or tuples of them; or an Arrow array


@dataclass
class Claimed:
    """The answer to one claim. `ids` as they were asked for; the lists below are those of them, in order."""

    ids: Any
    call: int
    verdicts: Verdicts
    began_ms: int
    settled: bool = False
    columns: list[pa.Array] = field(default_factory=list, repr=False)

    @property
    def claim(self) -> str | None:
        """The claim's name; None when nothing was granted."""
        return self.verdicts.claim

    @property
    def granted(self) -> Any:
        """These may be written, and must then be completed."""
        return self._those(self.verdicts.may_write)

    @property
    def busy(self) -> Any:
        """These are another attempt's for now: neither write them nor take them for done."""
        return self._those(self.verdicts.open)

    @property
    def dropped(self) -> Any:
        """These are written, or stand earlier among the same ids: drop them."""
        return self._those(pc.invert(pc.or_(self.verdicts.may_write, self.verdicts.open)))

    def _those(self, mask: pa.BooleanArray) -> Any:
        if isinstance(self.ids, pa.Array | pa.ChunkedArray):
            return self.ids.filter(mask)
        return [one for one, wanted in zip(self.ids, mask.to_pylist(), strict=True) if wanted]


class Attempt:
    """Holds a random token: a retry inside is recognised, a re-run is another attempt.

    As a context manager it says so when it is left with something open; it releases nothing by itself, because only
    its user knows what was written.
    """

    def __init__(self, gateway: "Gateway", token: str | None = None) -> None:
        self.gateway = gateway
        self.token = token or new_token()
        self._calls = 0
        self._open: dict[str, Claimed] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._open:
            return
        rows = sum(claimed.verdicts.granted for claimed in self._open.values())
        text = (
            f"attempt {self.token[:8]} was left with {rows} granted ids neither completed nor released; "
            "unknown: whether they are written. They are granted to another attempt when their lease is over"
        )
        self._open.clear()
        if error is None:
            raise NotCompleted(text)
        error.add_note(text)

    def next_call(self) -> int:
        """The number of the next request of this attempt; every try of that request repeats it."""
        self._calls += 1
        return self._calls - 1

    def claim(self, ids: Ids, lease_ms: int | None = None) -> Claimed:
        """Ask which of these may be written. Tuples are ids of several columns."""
        return self.claim_columns(id_columns(ids), lease_ms, ids)

    def claim_columns(self, columns: list[pa.Array], lease_ms: int | None = None, ids: Any = None) -> Claimed:
        """As `claim`, for id columns of equal length."""
        call = self.next_call()
        verdicts, began_ms = self.gateway.claim(self.token, call, columns, lease_ms)
        claimed = Claimed(ids, call, verdicts, began_ms, columns=columns)
        if verdicts.claim is not None:
            self._open[verdicts.claim] = claimed
        return claimed

    def complete(self, claimed: Claimed) -> None:
        """Say that everything granted is written.

        Raises StillBusy when some ids were BUSY, or were taken over while they were being written: those are not this
        attempt's, so the work is not done. Ask for them again in a new claim, or use `oncegate_spark.settling`.
        """
        taken_over = self.settle(claimed, "complete")
        left = claimed.verdicts.unsettled
        if taken_over or left:
            raise StillBusy(
                f"{claimed.verdicts.granted - taken_over} ids are written and completed; {left} are held by another "
                f"attempt and {taken_over} were taken over by one: whether those are written is for that one to say"
            )

    def settle(self, claimed: Claimed, verb: str) -> int:
        """Complete or release a claim; how many of its ids another attempt has taken over meanwhile."""
        if claimed.claim is None:
            return 0
        done = self.gateway.settle(claimed.claim, verb)
        self._open.pop(claimed.claim, None)
        claimed.settled = True
        return done.taken_over

    def release(self, claimed: Claimed) -> None:
        """Say that nothing granted was, or ever will be, handed to the place it is written to."""
        self.settle(claimed, "release")

    def produce(self, topic: str, rows: pa.Table) -> int:
        """Append rows to a topic, at least once; how many."""
        return sum(
            self.gateway.produce(topic, self.token, self.next_call(), body)
            for body, _ in codecs.chunks(rows.to_batches())
        )


def id_columns(ids: Ids) -> list[pa.Array]:
    """Ids in whatever form a program has them, as columns."""
    if isinstance(ids, pa.Array | pa.ChunkedArray):
        return codecs.id_columns({"id": ids})
    listed: list[Any] = list(ids)
    if listed and isinstance(listed[0], tuple):
        parts = enumerate(zip(*listed, strict=True))
        return codecs.id_columns({f"id[{n}]": _array(part) for n, part in parts})
    return codecs.id_columns({"id": _array(listed)})


def _array(values: Any) -> pa.Array:
    try:
        array = pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise BadId(f"ids must be of one type, all str or all bytes: {error}; nothing was written") from error
    return array.cast(pa.string()) if pa.types.is_null(array.type) else array
