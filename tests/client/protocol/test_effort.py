"""The core without I/O: every schedule of attempts, by hand."""

import itertools
import json
import os
import ssl
from random import Random

import pytest

from oncegate_spark.errors import (
    BY_CODE,
    BadId,
    BatchConflict,
    LedgerBehind,
    LostClaim,
    MissingStage,
    OncegateError,
    Outcome,
    Refused,
    Stopped,
    TurnedAway,
    Unanswered,
    Unreachable,
)
from oncegate_spark.protocol.effort import (
    BACKOFF_MS_MAX,
    DOWN_WHEN_ANSWERED,
    BusyWatch,
    Effort,
    Reply,
    Request,
    WireFailure,
    new_token,
)

SEED = int(os.environ.get("ONCEGATE_TEST_SEED", "4711"))
ASK = Request("POST", "/x", "claim 0", "whether the ids are claimed")
NEVER_SENT = WireFailure("ConnectionRefusedError: nobody listens", sent=False)
NO_ANSWER = WireFailure("no answer in time", sent=True)


def effort(timeout_ms: int = 10_000, *, patient: bool = True) -> Effort:
    return Effort(ASK, address="http://gateway", timeout_ms=timeout_ms, now_ms=0, rng=Random(1), patient=patient)


def refusal(code: str, action: str, status: int = 409, **more: object) -> Reply:
    return Reply(
        status, {}, json.dumps({"code": code, "action": action, "title": "No", "detail": "why", **more}).encode()
    )


def until_given_up(one: Effort, end: WireFailure | Reply) -> OncegateError:
    now_ms = 0
    for _ in range(1_000):
        one.begin(now_ms)
        try:
            pause_ms = one.answered(end, now_ms) if isinstance(end, Reply) else one.failed(end, now_ms)
        except OncegateError as error:
            return error
        assert pause_ms is not None
        now_ms += pause_ms
    raise AssertionError("it never gives up")


def test_a_token_is_128_random_bits_and_never_comes_twice() -> None:
    tokens = {new_token() for _ in range(1_000)}
    assert len(tokens) == 1_000
    assert all(len(bytes.fromhex(token)) == 16 for token in tokens)


def test_an_answer_ends_the_effort() -> None:
    one = effort()
    one.begin(0)
    assert one.answered(Reply(200, {}, b"{}"), 5) is None


def test_a_gateway_that_was_never_reached_has_written_nothing() -> None:
    error = until_given_up(effort(), NEVER_SENT)
    assert isinstance(error, Unreachable)
    assert error.outcome is Outcome.NOT_WRITTEN
    for part in ("http://gateway", "nobody listens", "10000 ms", "nothing was written"):
        assert part in str(error)


class NoTls(ssl.SSLError):
    """OpenSSL's error when the server answers in plain text."""

    reason = "WRONG_VERSION_NUMBER"


@pytest.mark.parametrize("lasting", [NoTls(1, "wrong version number"), ssl.SSLCertVerificationError(1, "self-signed")])
def test_what_no_further_try_can_mend_ends_the_first(lasting: ssl.SSLError) -> None:
    one, doubtful = effort(), effort()
    one.begin(0)
    with pytest.raises(Refused, match=r"cannot connect to .* \(fix\).*nothing was written") as raised:
        one.failed(WireFailure.of(lasting, sent=False), 0)
    assert raised.value.code == "ADDRESS"
    doubtful.begin(0)
    doubtful.failed(NO_ANSWER, 0)
    with pytest.raises(Refused, match="unknown: whether the ids are claimed") as raised:
        doubtful.failed(WireFailure.of(lasting, sent=False), 0)
    assert raised.value.outcome is Outcome.UNKNOWN


def test_a_tls_failure_that_may_pass_is_tried_again() -> None:
    one = effort()
    one.begin(0)
    assert one.failed(WireFailure.of(ssl.SSLEOFError(8, "unexpected eof"), sent=False), 0) > 0


def test_one_try_without_an_answer_makes_the_whole_request_unknown() -> None:
    one = effort()
    one.begin(0)
    one.failed(NO_ANSWER, 0)
    error = until_given_up(one, NEVER_SENT)
    assert isinstance(error, Unanswered)
    assert error.outcome is Outcome.UNKNOWN
    assert "unknown: whether the ids are claimed" in str(error)


def test_being_turned_away_each_time_has_written_nothing() -> None:
    error = until_given_up(effort(), refusal("OVERLOADED", "retry", 503))
    assert isinstance(error, TurnedAway)
    assert error.code == "OVERLOADED"
    assert error.outcome is Outcome.NOT_WRITTEN


def test_a_ledger_that_failed_while_writing_leaves_it_unknown() -> None:
    error = until_given_up(effort(), refusal("LEDGER_DOWN", "retry", 503))
    assert error.outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("code", sorted(DOWN_WHEN_ANSWERED))
def test_an_impatient_request_ends_with_the_first_answer_that_reports_the_gateway_down(code: str) -> None:
    one = effort(patient=False)
    one.begin(0)
    with pytest.raises((TurnedAway, Unanswered), match=f"on_down allows no further retries, after 1 tries.*{code}"):
        one.answered(refusal(code, "retry", 503), 0)


@pytest.mark.parametrize("code", ["OVERLOADED", "QUOTA", "DEADLINE", "KEYS_UNREAD"])
def test_a_gateway_that_is_only_busy_is_not_down(code: str) -> None:
    one = effort(patient=False)
    one.begin(0)
    assert one.answered(refusal(code, "retry", 503), 0)


def test_what_ends_work_is_known_by_its_verb() -> None:
    ends = {"complete", "release", "renew", "commit", "abort", "ack", "close"}
    paths = ("claims/c", "batches", "drivers/d", "producers/p")
    for verb in (*ends, "claim", "take", "stage", "register", "produce", "open"):
        for path in paths:
            request = Request("POST", f"/v1/namespaces/n/{path}:{verb}?x=y:complete", "a call", "all")
            assert request.ends_work == (verb in ends)


def test_an_answer_that_is_no_problem_document_is_judged_by_its_status() -> None:
    one = effort()
    one.begin(0)
    assert one.answered(Reply(503, {"retry-after": "2"}, b"<html>"), 0) == 2_000
    with pytest.raises(Refused, match="HTTP_400"):
        one.answered(Reply(400, {}, b"<html>"), 0)
    with pytest.raises(Stopped) as raised:
        one.answered(Reply(500, {}, b"[]"), 0)
    assert raised.value.outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("seed", range(20))
def test_pauses_grow_jitter_and_are_bounded(seed: int) -> None:
    one = Effort(ASK, address="a", timeout_ms=10**9, now_ms=0, rng=Random(seed))
    pauses = []
    for _ in range(12):
        one.begin(0)
        pauses.append(one.failed(NO_ANSWER, 0))
    assert 25 <= pauses[0] <= 50
    assert all(pause <= BACKOFF_MS_MAX for pause in pauses)
    assert all(later > earlier / 2 for earlier, later in itertools.pairwise(pauses))
    assert len(set(pauses[-5:])) > 1


def test_the_gateway_may_ask_for_a_longer_pause() -> None:
    one = effort()
    one.begin(0)
    assert one.answered(refusal("QUOTA", "retry", 429, retry_after_ms=7_000), 0) == 7_000


def test_a_pause_that_outlasts_the_deadline_is_not_waited_for() -> None:
    one = effort(timeout_ms=5_000)
    one.begin(0)
    with pytest.raises(TurnedAway, match="1 tries"):
        one.answered(refusal("QUOTA", "retry", 429, retry_after_ms=7_000), 0)


@pytest.mark.parametrize(("timeout_ms", "first_try_ms"), [(500, 500), (2_000, 1_000), (8_000, 2_000), (10**9, 30_000)])
def test_no_single_try_eats_the_whole_deadline(timeout_ms: int, first_try_ms: int) -> None:
    assert effort(timeout_ms).begin(0) == first_try_ms


@pytest.mark.parametrize(
    ("code", "action", "kind", "outcome"),
    [
        ("NULL_ID", "fix", BadId, Outcome.NOT_WRITTEN),
        ("TOKEN_REUSED", "fix", Refused, Outcome.NOT_WRITTEN),
        ("BATCH_CONFLICT", "stop", BatchConflict, Outcome.NOT_WRITTEN),
        ("MISSING_STAGE", "retry", MissingStage, Outcome.NOT_WRITTEN),
        ("LEDGER_BEHIND", "stop", LedgerBehind, Outcome.NOT_WRITTEN),
        ("UNKNOWN_CLAIM", "stop", LostClaim, Outcome.UNKNOWN),
        ("NEWER_THAN_US", "stop", Stopped, Outcome.NOT_WRITTEN),
    ],
)
def test_a_refusal_is_raised_at_once(code: str, action: str, kind: type[OncegateError], outcome: Outcome) -> None:
    one = effort()
    one.begin(0)
    with pytest.raises(kind) as raised:
        one.answered(refusal(code, action, places=[3]), 0)
    assert raised.value.code == code
    assert raised.value.outcome is outcome
    assert raised.value.extra["places"] == [3]


def test_a_refusal_after_a_lost_answer_leaves_it_unknown_unless_it_settles_the_doubt() -> None:
    for code, outcome in (("LEDGER_BEHIND", Outcome.UNKNOWN), ("BATCH_CONFLICT", Outcome.NOT_WRITTEN)):
        one = effort()
        one.begin(0)
        one.failed(NO_ANSWER, 0)
        one.begin(100)
        with pytest.raises(BY_CODE[code]) as raised:
            one.answered(refusal(code, "stop"), 100)
        assert raised.value.outcome is outcome


def test_waiting_for_a_silent_holder_ends_half_a_lease_after_its_lease() -> None:
    watch, now_ms = BusyWatch(30_000, Random(1)), 0
    while (pause_ms := watch.observe(now_ms, max(0, 30_000 - now_ms))) is not None and now_ms < 100_000:
        now_ms += pause_ms
    assert 45_000 <= now_ms <= 46_100


def test_waiting_continues_while_the_holder_renews() -> None:
    """Otherwise a twin of a healthy owner would use up the attempts that Spark allows a task."""
    watch, now_ms, renewed_ms = BusyWatch(30_000, Random(2)), 0, 0
    while now_ms < 600_000:
        if now_ms - renewed_ms >= 10_000:
            renewed_ms = now_ms
        pause_ms = watch.observe(now_ms, renewed_ms + 30_000 - now_ms)
        assert pause_ms is not None
        assert 10 <= pause_ms <= BusyWatch.POLL_MS_MAX
        now_ms += pause_ms


def test_waiting_asks_again_as_soon_as_the_lease_is_over() -> None:
    watch = BusyWatch(1_000, Random(3))
    for _ in range(6):
        watch.observe(0, 1_000)
    assert (watch.observe(990, 10) or 0) <= 20


def test_a_random_schedule_of_ends_never_outlasts_its_deadline() -> None:
    print("ONCEGATE_TEST_SEED", SEED)
    rng = Random(SEED)
    for _ in range(500):
        timeout_ms = rng.choice([1, 50, 1_000, 120_000])
        one, now_ms, unknown = effort(timeout_ms), 0, False
        given_up: OncegateError | None = None
        while given_up is None:
            assert now_ms < timeout_ms
            now_ms += rng.randint(0, one.begin(now_ms))
            end = rng.choice([NEVER_SENT, NO_ANSWER, refusal("OVERLOADED", "retry", 503)])
            unknown = unknown or end is NO_ANSWER
            try:
                now_ms += (one.answered(end, now_ms) if isinstance(end, Reply) else one.failed(end, now_ms)) or 0
            except OncegateError as error:
                given_up = error
        assert (given_up.outcome is Outcome.UNKNOWN) == unknown
        assert now_ms <= timeout_ms


@pytest.mark.parametrize("detail", ["full; nothing was written", "full. Nothing was written", "full", None])
def test_a_written_row_is_reported_once_however_often_the_gateway_reports_it(detail: str | None) -> None:
    reply = refusal("NO_SUCH", "fix", title="The ledger has no room; nothing was written", detail=detail)
    error = until_given_up(effort(), reply)
    assert str(error).lower().count("nothing was written") == 1
    assert str(error).endswith("; nothing was written")


def test_a_refusal_after_a_lost_answer_does_not_claim_that_nothing_was_written() -> None:
    one = effort()
    one.begin(0)
    one.failed(NO_ANSWER, 0)
    one.begin(1_000)
    with pytest.raises(OncegateError) as raised:
        one.answered(refusal("NO_SUCH", "fix", detail="wrong; nothing was written"), 1_000)
    assert raised.value.outcome is Outcome.UNKNOWN
    assert "nothing was written" not in str(raised.value)
