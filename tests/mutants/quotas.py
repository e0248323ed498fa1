"""Planted bugs of quotas: who is refused, for how long, and what never is."""

from tests.mutants.mutant import Mutant, one

RATES = "service/oncegate/engine/counts/rates.py"
_BUCKET = "service/oncegate/engine/counts/bucket.py"
_RATES = "tests/engine/test_rates.py"
_DOORS = "tests/transports/test_quotas.py"
_TENANTS = "tests/transports/test_tenant_quotas.py"

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
        "tenant, is_refused = current_tenant(), count > NEVER_REFUSED_BYTES",
        "tenant, is_refused = current_tenant(), True",
        f"{_RATES}::test_refusals_are_counted_by_quota_and_say_how_long_to_wait",
    ),
    one(
        "a large disk keeps a tenth of itself free of stages",
        "service/oncegate/engine/limits.py",
        "min(int(total_bytes * self.disk_free_fraction), self.disk_free_bytes)",
        "int(total_bytes * self.disk_free_fraction)",
        "tests/engine/usecases/test_stage_quota.py::test_of_a_large_disk_no_more_than_disk_free_bytes_stay_free",
    ),
    one(
        "bytes are bounded by nobody",
        "service/oncegate/transports/incoming.py",
        "    shard.rates.take_bytes(size_bytes)\n",
        "",
        f"{_DOORS}::test_who_brings_more_than_a_quota_is_refused_before_any_effect_and_told_when_to_come_back",
    ),
    one(
        "ids are counted once they are claimed",
        "service/oncegate/engine/shard.py",
        "        self.rates.take_ids(len(request.ids))\n        answering = self._claim_batcher.claim(request, deadline)\n",
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
    one(
        "a tenant's ids are counted by namespace alone",
        RATES,
        "            if wait_ms := tenant.ids_wait_ms():\n",
        "            if wait_ms := 0:\n",
        f"{_TENANTS}::test_what_a_tenant_brings_to_one_namespace_is_taken_from_its_others_and_from_nobody_elses",
    ),
    one(
        "a tenant's bytes are paid for by nobody",
        RATES,
        "            tenant.take_bytes(count)\n",
        "",
        f"{_TENANTS}::test_what_a_tenant_brings_to_one_namespace_is_taken_from_its_others_and_from_nobody_elses",
    ),
    one(
        "each credential is a tenant of its own",
        "service/oncegate/transports/access/principal.py",
        'f"tenant {self.tenant}" if self.tenant else f"name {self.name}"',
        'f"name {self.name}"',
        f"{_TENANTS}::test_both_doors_count_for_one_tenant",
        "tests/transports/access/test_tokens.py::test_tokens_name_their_tenant_by_one_claim_and_one_that_names_none_is_refused",
    ),
    one(
        "requests over gRPC are nobody's",
        "service/oncegate/transports/grpc/calls.py",
        "        return None if self._principal is None else self._principal.whose\n",
        "        return None\n",
        f"{_TENANTS}::test_both_doors_count_for_one_tenant",
    ),
    one(
        "claims that are decided together are granted whatever their tenant has open",
        "service/oncegate/engine/usecases/claim_batching.py",
        "        if any(one.tenant is not None and not one.tenant.has_room(len(batch)) for one in batch):\n",
        "        if False:\n",
        "tests/engine/test_tenants.py::test_of_many_claims_at_once_no_more_are_granted_than_the_tenant_may_have_open",
    ),
    one(
        "a tenant at its bound cannot repeat a call whose answer was lost",
        "service/oncegate/engine/usecases/claims.py",
        "        claim, rests_on = None, decision.rests_on\n",
        "        claim, rests_on = None, decision.rests_on\n        self._check_tenant(tenant)\n",
        f"{_TENANTS}::test_a_tenants_open_claims_are_counted_over_the_namespaces_of_its_credential",
    ),
    one(
        "a tenant makes as many namespaces as there may be",
        "service/oncegate/engine/gateway.py",
        "                    tenant.check_namespaces(self._owners)\n",
        "                    pass\n",
        f"{_TENANTS}::test_a_tenant_makes_no_more_namespaces_than_it_may_have",
    ),
    one(
        "a token without a tenant has its quotas alone",
        "service/oncegate/transports/access/tokens.py",
        "        if len(names) != 1:\n",
        "        if len(names) > 1:\n            return names[0]\n        if not names:\n            return ''\n        if False:\n",
        "tests/transports/access/test_tokens.py::test_tokens_name_their_tenant_by_one_claim_and_one_that_names_none_is_refused",
    ),
)
