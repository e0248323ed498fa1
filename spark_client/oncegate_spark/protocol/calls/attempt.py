"""The state of an attempt and its calls, as steps, and calls with spilled rows. No I/O: both clients take the steps.

Rows that were spilled while the gateway was down are sent like any others, with the time since when they waited.
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
    """Says where the rows of one `produce` go and how they are known: the same for all requests that it takes.

    columns: by the parameter's name, of the rows' ids, keys and payloads. drops: rows of a CONFLICT are left out.
    """

    topic: str
    columns: Mapping[str, tuple[str, ...]]
    drops: bool


class AttemptCalls:
    """A token, the number of the next call, and the claims that are neither completed nor released.

    `spilled_ms`: when the rows that it produces were laid down, where they had waited for the gateway.
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
        """The set of the ids; None for the one that each call has by itself."""
        return self._id_set

    @property
    def is_scoped(self) -> bool:
        """Whether it is of a driver's batch, which is forgotten when that driver acks it."""
        return self._scope is not None

    def next_call(self) -> int:
        """The number of the next request; every try of that request repeats it."""
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
        """Claim ids in any form. Raises BadId, BadOption before anything is sent, else what `errors` draws."""
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
        """Claim columns of ids of equal length, as `claim`; `ids` are those that the result hands back."""
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
        """Raises `error`; what was granted is released before, unless some of it is in doubt.

        Whoever is granted next what was released is not told that its earlier holder may have written it.
        """
        if claimed.verdicts.takeovers:
            error.add_note("what was granted beside them is left to its lease, for earlier holders may have written it")
            raise error
        try:
            yield from self.settle(claimed, "release")
        except OncegateError as failed:
            error.add_note(f"what was granted beside them is free when its lease is over: {failed}")
        raise error

    def _conflict(self, claimed: Claimed, drops: bool) -> Steps[None]:
        """Some ids are written with other payloads. Where that is no reason to go on, what was granted is released."""
        what, conflicting = f"claim {claimed.call} of {self.token[:8]}", claimed.verdicts.conflicting
        if drops:
            dropped(claimed.columns, conflicting, what)
            return
        yield from self._give_back(claimed, conflict(claimed.columns, conflicting, 0, what))

    def complete(self, claimed: Claimed, result: bytes | None = None) -> Steps[bytes | None]:
        """Complete a claim; returns the result that stands. Raises StillBusy where some ids are not this attempt's."""
        if result is not None and not isinstance(result, bytes):
            raise BadOption(f"result is {result!r}; it is bytes, a few of them; nothing was sent")
        done = yield from self._settled_as(claimed, "complete", result)
        left, taken_over = claimed.verdicts.unsettled, 0 if done is None else done.taken_over
        if taken_over or left:
            raise StillBusy(
                f"{claimed.verdicts.granted - taken_over} ids are written and completed; {left} are held by another "
                f"attempt and {taken_over} were taken over by one: whether those are written is for that one to say"
            )
        return None if done is None else done.result

    def settle(self, claimed: Claimed, verb: str) -> Steps[int]:
        """Complete or release a claim; how many of its ids another attempt has taken over."""
        done = yield from self._settled_as(claimed, verb)
        return 0 if done is None else done.taken_over

    def _settled_as(self, claimed: Claimed, verb: str, result: bytes | None = None) -> Steps[Settled | None]:
        """None: nothing was granted, so there is no claim."""
        if claimed.claim is None:
            return None
        done = yield from self._calls.settle(claimed.claim, verb, result=result)
        self._open.pop(claimed.claim, None)
        claimed.settled = True
        return done

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
        """Append rows until each is done. Raises BadId, BadOption before anything is sent, then StillBusy."""
        columns = {"id_col": column_names(id_col), "key_col": column_names(key_col)}
        columns |= {"digest_cols": column_names(digest_cols)} if digest_cols else {}
        _check(rows, columns)
        if locate and not columns["id_col"]:
            raise BadOption("locate asks for the first of each id; name the id by id_col; nothing was sent")
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
        """Produce rows until each of them is done; what another attempt holds is claimed again in a new call.

        body: the rows as an Arrow stream. written: what is done is added to it. at: where these rows stand among all of
        them, to note their firsts; None: nobody asked.
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
        """Send rows once, in a new call; every try of it repeats the call."""
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
        """Raises BatchOver: whether these very rows are among those that were written is not known any more."""
        if verdicts is not None and self._scope is not None and verdicts.stale == len(verdicts.data) > 0:
            raise BatchOver(
                f"the batch of this request, {self._scope}, was acked: either its task has outlived it, or the query's "
                "checkpoint was set back, and then these rows may be others than the batch had. A query that begins "
                "anew needs a checkpoint of its own, or ids without scope=retry; nothing of this request was written"
            )

    def _check_verdicts(self, target: _Target, rows: pa.Table, verdicts: Verdicts, written: Written) -> None:
        """Raises InDoubt for ids that a person has to look at, PayloadConflict for conflicts that are not dropped."""
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
        raise BadOption("digest_cols tells payloads of one id apart; name the id by id_col; nothing was sent")
    payloads_of(rows, columns.get("digest_cols", ()))
    for name in columns["key_col"]:
        if name not in rows.schema.names:
            raise BadOption(f"key_col names {name}, and the rows have {', '.join(rows.schema.names)}; nothing was sent")


def _after(rows: int, error: OncegateError) -> OncegateError:
    """An error in a later request: what the earlier ones have written is not unwritten by it."""
    outcome = Outcome.WRITTEN if error.outcome is Outcome.NOT_WRITTEN else error.outcome
    text = str(error)
    if text.endswith(NOTHING):
        text = f"{text.removesuffix(NOTHING)}; nothing of this request was written"
    text = f"{text}; {rows} rows were written by the requests before it"
    return type(error)(text, outcome=outcome, code=error.code, **error.extra)


SPILLED_MS = "spilled_ms"  # as the parameter is called, also in the words of a gateway that does not take it

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
    """Produce rows of which `attempt.spilled_ms` says since when they waited.

    A gateway that does not take it, as one of the version before, is sent the rows without: they matter more than how
    they are counted.
    """
    arguments = (topic, rows, id_col, key_col, digest_cols, on_conflict)
    try:
        return (yield from attempt.produce(*arguments))
    except Refused as error:
        if attempt.spilled_ms is None or SPILLED_MS not in str(error):
            raise
        log.warning("rows for %r are sent without a word that they had waited, so nobody counts it: %s", topic, error)
        attempt.spilled_ms = None
        return (yield from attempt.produce(*arguments))
