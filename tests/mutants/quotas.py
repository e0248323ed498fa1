"""Planted bugs of quotas: who is refused, for how long, and what never is."""

from tests.mutants.mutant import Mutant, one

RATES = "service/oncegate/engine/counts/rates.py"
_BUCKET = "service/oncegate/engine/counts/bucket.py"
_RATES = "tests/engine/test_rates.py"
_DOORS = "tests/transports/test_quotas.py"

QUOTAS: tuple[Mutant, ...] = (
    one(
        "an hour of rest saves up an hour's ids",
        _BUCKET,
        "min(self._left + grown, float(self._per_second))",
        "(self._left + grown)",
        f"{_RATES}::test_a_second_s_worth_passes_at_once_and_then_as_much_as_time_brings",
    ),
    one(
        "a large request is paid for by nobody",
        _BUCKET,
        "        self._left -= count\n",
        "        self._left = max(0.0, self._left - count)\n",
        f"{_RATES}::test_a_request_larger_than_a_second_passes_and_those_behind_it_wait_until_it_is_paid_for",
    ),
    one(
        "who has brought too many bytes cannot settle",
        RATES,
        "(wait_ms := self._bytes.wait_ms()) and count > NEVER_REFUSED_BYTES",
        "(wait_ms := self._bytes.wait_ms())",
        f"{_RATES}::test_refusals_are_counted_by_quota_and_say_how_long_to_wait",
    ),
    one(
        "bytes are bounded by nobody",
        "service/oncegate/transports/incoming.py",
        "    shard.rates.size_bytes(size_bytes)\n",
        "",
        f"{_DOORS}::test_who_brings_more_than_a_quota_is_refused_before_any_effect_and_told_when_to_come_back",
    ),
    one(
        "ids are counted once they are claimed",
        "service/oncegate/engine/shard.py",
        "        self.rates.ids(len(request.ids))\n        answering = self._claim_batcher.claim(request, deadline)\n",
        "        answering = self._claim_batcher.claim(request, deadline)\n",
        f"{_RATES}::test_what_was_claimed_can_be_claimed_again_completed_and_released_whatever_the_rate_says",
    ),
    one(
        "who is refused is told the same time whatever it has brought",
        "service/oncegate/transports/http/problems.py",
        'fixed["retry_after_ms"] = error.extra.get("retry_after_ms", error.retry_after_ms)',
        'fixed["retry_after_ms"] = error.retry_after_ms',
        f"{_DOORS}::test_what_one_namespace_brings_is_taken_from_no_other",
    ),
)
