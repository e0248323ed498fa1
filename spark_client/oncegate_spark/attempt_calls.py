"""What an attempt knows of itself, and how it asks, as steps. No I/O: `Attempt` and `AsyncAttempt` take them."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from oncegate_spark import codecs
from oncegate_spark.answers import Claimed, Written
from oncegate_spark.calls import Calls, Columns, Scope, column_names
from oncegate_spark.codecs import Verdicts
from oncegate_spark.errors import BadId, BadOption, BatchOver, NotCompleted, OncegateError, Outcome, StillBusy
from oncegate_spark.ids import Ids, id_columns, listed
from oncegate_spark.protocol import LEASE_MS, Watch, new_token
from oncegate_spark.steps import Pause, Steps

NOTHING = f"; {Outcome.NOT_WRITTEN.value}"  # how an error's text ends


class AttemptCalls:
    """A token, the number of the next call, and the claims that are neither completed nor released."""

    def __init__(self, calls: Calls, token: str | None = None, scope: Scope | None = None) -> None:
        self.token = token or new_token()
        self._scope = scope
        self._calls = calls
        self._next = 0
        self._open: dict[str, Claimed] = {}

    def next_call(self) -> int:
        self._next += 1
        return self._next - 1

    def claim(self, ids: Ids, lease_ms: int | None = None) -> Steps[Claimed]:
        given = listed(ids)
        return self.claim_columns(id_columns(given), lease_ms, given)

    def claim_columns(self, columns: list[pa.Array], lease_ms: int | None = None, ids: Any = None) -> Steps[Claimed]:
        call = self.next_call()
        verdicts, began_ms = yield from self._calls.claim(self.token, call, columns, lease_ms, self._scope)
        self._check_batch(verdicts)
        claimed = Claimed(ids, verdicts, call, began_ms, columns=columns)
        if verdicts.claim is not None:
            self._open[verdicts.claim] = claimed
        return claimed

    def complete(self, claimed: Claimed) -> Steps[None]:
        taken_over = yield from self.settle(claimed, "complete")
        left = claimed.verdicts.unsettled
        if taken_over or left:
            raise StillBusy(
                f"{claimed.verdicts.granted - taken_over} ids are written and completed; {left} are held by another "
                f"attempt and {taken_over} were taken over by one: whether those are written is for that one to say"
            )

    def settle(self, claimed: Claimed, verb: str) -> Steps[int]:
        if claimed.claim is None:
            return 0
        done = yield from self._calls.settle(claimed.claim, verb)
        self._open.pop(claimed.claim, None)
        claimed.settled = True
        return done.taken_over

    def left(self, error: BaseException | None) -> None:
        """The attempt is left. Raises NotCompleted when something is open, or notes it on the error it is left with."""
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

    def produce(self, topic: str, rows: pa.Table, id_col: Columns = (), key_col: Columns = ()) -> Steps[Written]:
        ids, keys = column_names(id_col), column_names(key_col)
        _check(rows, ids, keys)
        return self._produce(topic, rows, ids, keys)

    def _produce(self, topic: str, rows: pa.Table, ids: Columns, keys: Columns) -> Steps[Written]:
        written = Written()
        try:
            for part, body in codecs.portions(rows.to_batches(), codecs.IDS_MAX if ids else None):
                yield from self._settled(topic, part, body, {"id_col": ids, "key_col": keys}, written)
        except OncegateError as error:
            if not (before := written.rows + written.own):
                raise
            raise _after(before, error) from error
        return written

    def _settled(
        self, topic: str, rows: pa.Table, body: bytes, columns: Mapping[str, Columns], written: Written
    ) -> Steps[None]:
        """Produce rows until each of them is done; what another attempt holds is asked for in a new call."""
        watch: Watch | None = None
        while rows.num_rows:
            call = self.next_call()
            done = yield from self._calls.produce(topic, self.token, call, body, **columns, scope=self._scope)
            verdicts = done.verdicts
            self._check_batch(verdicts)
            written.add(done)
            if verdicts is None or not verdicts.unsettled:
                return
            if verdicts.granted:
                watch = None
            else:
                watch = watch or Watch(verdicts.lease_ms or LEASE_MS, self._calls.tries.rng)
                yield Pause(pause_ms(watch, self._calls.tries.now_ms(), verdicts))
            rows = rows.filter(verdicts.open)
            body = codecs.stream(rows.to_batches()) if rows.num_rows else b""

    def _check_batch(self, verdicts: Verdicts | None) -> None:
        """Raises BatchOver: whether these very rows are among those that were written is not known any more."""
        if verdicts is not None and verdicts.stale:
            raise BatchOver(
                f"the batch of this request, {self._scope}, was acked: either its task has outlived it, or the query's "
                "checkpoint was set back, and then these rows may be others than the batch had. A query that begins "
                "anew needs a checkpoint of its own, or ids without scope=retry; nothing of this request was written"
            )


def pause_ms(watch: Watch, now_ms: int, verdicts: Verdicts) -> int:
    """How long to wait before asking again for what others hold; StillBusy when there is no sense in waiting on."""
    pause = watch.saw(now_ms, verdicts.lease_left_ms)
    if pause is None:
        raise StillBusy(
            f"{verdicts.unsettled} rows are held by another attempt that neither completes them nor lets "
            "go; they were not written by this one"
        )
    return pause


def columns_of(rows: pa.Table | pa.RecordBatch, names: Columns) -> list[pa.Array]:
    """The id columns of rows. Raises BadId when one is missing or cannot be an id; nothing was asked."""
    try:
        return codecs.id_columns({name: rows.column(name) for name in names})
    except KeyError as error:
        raise BadId(f"the rows have no column {error}; nothing was written") from error


def _check(rows: pa.Table, ids: Columns, keys: Columns) -> None:
    if ids:
        columns_of(rows, ids)
    for name in keys:
        if name not in rows.schema.names:
            raise BadOption(f"key_col names {name}, and the rows have {', '.join(rows.schema.names)}; nothing was sent")


def _after(rows: int, error: OncegateError) -> OncegateError:
    """An error in a later request: what the earlier ones have written is not unwritten by it."""
    outcome = Outcome.WRITTEN if error.outcome is Outcome.NOT_WRITTEN else error.outcome
    told = str(error)
    if told.endswith(NOTHING):
        told = f"{told.removesuffix(NOTHING)}; nothing of this request was written"
    text = f"{told}; {rows} rows were written by the requests before it"
    return type(error)(text, outcome=outcome, code=error.code, **error.extra)
