"""State and calls of an attempt, as steps that both clients execute. No I/O.

Spilled rows are sent like any others, together with the time at which they were spilled.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from oncegate_spark.errors import (
    NOTHING,
    BadOption,
    BatchOver,
    NotCompleted,
    OncegateError,
    Outcome,
    PayloadConflict,
    Refused,
    StillBusy,
)
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.answers import Claimed, Produced, Settled, Written
from oncegate_spark.protocol.calls.namespace import Calls
from oncegate_spark.protocol.calls.steps import Pause, RetryScope, Steps
from oncegate_spark.protocol.columns import Columns, check_columns, column_names, columns_of, payloads_of
from oncegate_spark.protocol.effort import LEASE_MS, BusyWatch, in_doubt, new_token, pause_ms
from oncegate_spark.protocol.ids import Ids, id_columns, listed
from oncegate_spark.protocol.packed import Verdicts
from oncegate_spark.protocol.payloads import beside, checked, conflict, dropped, named


@dataclass(frozen=True)
class _Target:
    """Destination and columns of one `produce`, shared by all of its requests.

    `columns`: column names by parameter (ids, keys, payloads). `drops`: rows with a CONFLICT are dropped.
    """

    topic: str
    columns: Mapping[str, tuple[str, ...]]
    drops: bool


class AttemptCalls:
    """A token, the number of the next call, and the claims that are neither completed nor released.

    `spilled_ms`: when the rows were spilled, if they waited for the gateway.
    """

    def __init__(
        self,
        calls: Calls,
        token: str | None = None,
        scope: RetryScope | None = None,
        id_set: str | None = None,
        spilled_ms: int | None = None,
    ) -> None:
        self.token = token or new_token()
        self.spilled_ms = spilled_ms
        self._scope, self._id_set = scope, id_set
        self._calls = calls
        self._next = 0
        self._open: dict[str, Claimed] = {}

    @property
    def id_set(self) -> str | None:
        """Dedup scope of the ids; None for each call's default."""
        return self._id_set

    @property
    def is_scoped(self) -> bool:
        """True if the ids belong to a driver's batch, and are forgotten once that driver acks it."""
        return self._scope is not None

    def next_call(self) -> int:
        """Returns the number of the next request; all tries of a request share it."""
        self._next += 1
        return self._next - 1

    def claim(
        self,
        ids: Ids,
        lease_ms: int | None = None,
        payloads: Ids | None = None,
        on_conflict: str = "fail",
        locate: bool = False,
    ) -> Steps[Claimed]:
        """Claims ids of any accepted type. Raises BadId and BadOption before anything is sent."""
        id_list = listed(ids)
        columns = id_columns(id_list)
        brought, drops = beside(len(columns[0]), payloads), checked(on_conflict) == "drop"
        return self._claim(columns, lease_ms, id_list, brought, drops, locate)

    def claim_columns(
        self,
        columns: list[pa.Array],
        lease_ms: int | None = None,
        ids: Any = None,
        payloads: Sequence[pa.Array] = (),
        on_conflict: str = "fail",
    ) -> Steps[Claimed]:
        """Like `claim`, for id columns of equal length; the result reports `ids` instead of the columns."""
        return self._claim(columns, lease_ms, ids, payloads, checked(on_conflict) == "drop")

    def _claim(
        self,
        columns: list[pa.Array],
        lease_ms: int | None,
        ids: Any,
        payloads: Sequence[pa.Array],
        drops: bool,
        locate: bool = False,
    ) -> Steps[Claimed]:
        call = self.next_call()
        request = (self.token, call, columns, lease_ms, self._scope, payloads, self._id_set, locate)
        verdicts, began_ms = yield from self._calls.claim(*request)
        self._check_batch(verdicts)
        claimed = Claimed(ids, verdicts, call, began_ms, columns=columns)
        self._calls.tries.outage.note_unchecked(verdicts.unchecked_count, self._calls.tries.now_ms())
        if verdicts.claim is not None:
            self._open[verdicts.claim] = claimed
        if "IN_DOUBT" in verdicts:
            yield from self._give_back(claimed, in_doubt(columns, verdicts, f"claim {call} of {self.token[:8]}"))
        if verdicts.conflicts:
            yield from self._conflict(claimed, drops)
        return claimed

    def _give_back(self, claimed: Claimed, error: OncegateError) -> Steps[None]:
        """Raises `error`, after releasing what was granted unless some of it is in doubt.

        A release would lose the doubt: the next claim of these ids would not be reported as a takeover.
        """
        if claimed.verdicts.takeovers:
            error.add_note("the ids granted with them are not released: earlier holders may have written some of them")
            raise error
        try:
            yield from self.settle(claimed, "release")
        except OncegateError as failed:
            error.add_note(f"the ids granted with them are free once their lease expires: {failed}")
        raise error

    def _conflict(self, claimed: Claimed, drops: bool) -> Steps[None]:
        """Logs conflicts if they are dropped; otherwise releases what was granted and raises PayloadConflict."""
        what, conflicting = f"claim {claimed.call} of {self.token[:8]}", claimed.verdicts.conflicting
        if drops:
            dropped(claimed.columns, conflicting, what)
            return
        yield from self._give_back(claimed, conflict(claimed.columns, conflicting, 0, what))

    def complete(self, claimed: Claimed, result: bytes | None = None) -> Steps[bytes | None]:
        """Completes a claim and returns the result stored for it. Raises StillBusy if some ids belong to other
        attempts.
        """
        if result is not None and not isinstance(result, bytes):
            raise BadOption(f"result is {result!r}; it must be bytes; nothing was sent")
        done = yield from self._settled_as(claimed, "complete", result)
        left, taken_over = claimed.verdicts.unsettled, 0 if done is None else done.taken_over
        if taken_over or left:
            raise StillBusy(
                f"{claimed.verdicts.granted - taken_over} ids are written and completed; another attempt holds {left} "
                "ids "
                f"and took over {taken_over}; whether it has written those is unknown"
            )
        return None if done is None else done.result

    def settle(self, claimed: Claimed, verb: str) -> Steps[int]:
        """Completes or releases a claim; returns the number of ids that another attempt has taken over."""
        done = yield from self._settled_as(claimed, verb)
        return 0 if done is None else done.taken_over

    def _settled_as(self, claimed: Claimed, verb: str, result: bytes | None = None) -> Steps[Settled | None]:
        """Like `settle`, with a result; returns None if nothing was granted."""
        if claimed.claim is None:
            return None
        done = yield from self._calls.settle(claimed.claim, verb, result=result)
        self._open.pop(claimed.claim, None)
        claimed.settled = True
        return done

    def left(self, error: BaseException | None) -> None:
        """Raises NotCompleted if a claim is open at the end of the attempt, or adds a note to `error`."""
        if not self._open:
            return
        rows = sum(claimed.verdicts.granted for claimed in self._open.values())
        text = (
            f"attempt {self.token[:8]} ended with {rows} granted ids neither completed nor released; unknown: whether "
            "they are written. They are granted to another attempt once their lease expires"
        )
        self._open.clear()
        if error is None:
            raise NotCompleted(text)
        error.add_note(text)

    def produce(
        self,
        topic: str,
        rows: pa.Table,
        id_col: Columns = (),
        key_col: Columns = (),
        digest_cols: Columns = (),
        on_conflict: str = "fail",
        locate: bool = False,
    ) -> Steps[Written]:
        """Appends rows until each is done. Raises BadId and BadOption before anything is sent, StillBusy later."""
        columns = {"id_col": column_names(id_col), "key_col": column_names(key_col)}
        columns |= {"digest_cols": column_names(digest_cols)} if digest_cols else {}
        _check(rows, columns)
        if locate and not columns["id_col"]:
            raise BadOption("locate returns the first row of each id: name the ids by id_col; nothing was sent")
        return self._produce(_Target(topic, columns, checked(on_conflict) == "drop"), rows, locate)

    def _produce(self, target: _Target, rows: pa.Table, locate: bool) -> Steps[Written]:
        written = Written()
        rows_max = codecs.IDS_MAX if target.columns["id_col"] else None
        try:
            for part, body in codecs.portions(rows.to_batches(), rows_max):
                at = written.room_for_firsts(part.num_rows) if locate else None
                yield from self._settled(target, part, body, written, at)
        except PayloadConflict:
            raise
        except OncegateError as error:
            if not (before := written.rows + written.own):
                raise
            raise _after(before, error) from error
        return written

    def _settled(
        self, target: _Target, rows: pa.Table, body: bytes | memoryview, written: Written, at: Sequence[int] | None
    ) -> Steps[None]:
        """Produces rows until each is done, claiming ids held by other attempts again in new calls.

        Args:
            body: the rows as an Arrow stream
            written: receives the counts
            at: indexes of these rows in `written.places`; None without `locate`
        """
        watch: BusyWatch | None = None
        while rows.num_rows:
            done = yield from self._request(target, body, locate=at is not None)
            verdicts = done.verdicts
            self._check_batch(verdicts)
            written.add(done, at)
            if verdicts is None:
                return
            self._check_verdicts(target, rows, verdicts, written)
            if not verdicts.unsettled:
                return
            if verdicts.granted:
                watch = None
            else:
                watch = watch or BusyWatch(verdicts.lease_ms or LEASE_MS, self._calls.tries.rng)
                yield Pause(pause_ms(watch, self._calls.tries.now_ms(), verdicts))
            rows = rows.filter(verdicts.open)
            if at is not None:
                at = [index for index, is_open in zip(at, verdicts.open.to_pylist(), strict=True) if is_open]
            body = codecs.stream(rows.to_batches()) if rows.num_rows else b""

    def _request(self, target: _Target, body: bytes | memoryview, locate: bool) -> Steps[Produced]:
        """Sends the rows as one new call; retries of its request reuse the call number."""
        return self._calls.produce(
            target.topic,
            self.token,
            self.next_call(),
            body,
            **target.columns,
            scope=self._scope,
            id_set=self._id_set if target.columns["id_col"] else None,
            locate=locate,
            spilled_ms=self.spilled_ms,
        )

    def _check_batch(self, verdicts: Verdicts | None) -> None:
        """Raises BatchOver for rows of an acked batch: whether they were written is no longer known."""
        if verdicts is not None and self._scope is not None and verdicts.stale == len(verdicts.data) > 0:
            raise BatchOver(
                f"the batch of this request, {self._scope}, was acked: either its task outlived it, or the query's "
                "checkpoint was reset, and these rows may differ from the batch's. A query that starts over needs a "
                "new "
                "checkpoint, or ids without scope=retry; nothing of this request was written"
            )

    def _check_verdicts(self, target: _Target, rows: pa.Table, verdicts: Verdicts, written: Written) -> None:
        """Raises InDoubt for ids in doubt, and PayloadConflict for conflicts that are not dropped."""
        by = target.columns
        if "IN_DOUBT" in verdicts:
            raise in_doubt(columns_of(rows, by["id_col"]), verdicts, named(by["id_col"], ()))
        if not verdicts.conflicts:
            return
        columns, what = columns_of(rows, by["id_col"]), named(by["id_col"], by["digest_cols"])
        if not target.drops:
            raise conflict(columns, verdicts.conflicting, written.rows + written.own, what)
        dropped(columns, verdicts.conflicting, what)


def _check(rows: pa.Table, columns: Mapping[str, tuple[str, ...]]) -> None:
    if columns["id_col"]:
        check_columns(rows, columns["id_col"])
    elif columns.get("digest_cols"):
        raise BadOption("digest_cols compares payloads of one id: name the ids by id_col; nothing was sent")
    payloads_of(rows, columns.get("digest_cols", ()))
    for name in columns["key_col"]:
        if name not in rows.schema.names:
            raise BadOption(f"key_col names {name}, and the rows have {', '.join(rows.schema.names)}; nothing was sent")


def _after(rows: int, error: OncegateError) -> OncegateError:
    """Returns the error of a later request with the rows that earlier requests of the same call have written."""
    outcome = Outcome.WRITTEN if error.outcome is Outcome.NOT_WRITTEN else error.outcome
    text = str(error)
    if text.endswith(NOTHING):
        text = f"{text.removesuffix(NOTHING)}; nothing of this request was written"
    text = f"{text}; the earlier requests of this call wrote {rows} rows"
    return type(error)(text, outcome=outcome, code=error.code, **error.extra)


SPILLED_MS = "spilled_ms"  # the parameter's name, which the refusal of a gateway without it contains

log = logging.getLogger("oncegate_spark")


def produce_spilled(
    attempt: AttemptCalls,
    topic: str,
    rows: pa.Table,
    id_col: Columns,
    key_col: Columns,
    digest_cols: Columns,
    on_conflict: str,
) -> Steps[Written]:
    """Produces rows that were spilled at `attempt.spilled_ms`.

    An older gateway refuses that parameter, and gets the rows without it: writing them matters more than counting them.
    """
    arguments = (topic, rows, id_col, key_col, digest_cols, on_conflict)
    try:
        return (yield from attempt.produce(*arguments))
    except Refused as error:
        if attempt.spilled_ms is None or SPILLED_MS not in str(error):
            raise
        log.warning(
            "rows for %r are sent without the time they were spilled, so they are not counted: %s", topic, error
        )
        attempt.spilled_ms = None
        return (yield from attempt.produce(*arguments))
