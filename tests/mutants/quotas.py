"""Planted bugs of quotas: which requests are refused, for how long, and which never are."""

from tests.mutants.edits import delete, insert, replace, replace_statement, without
from tests.mutants.mutant import Mutant, one

_RATES = "tests/engine/test_rates.py"
_DOORS = "tests/transports/test_quotas.py"
_TENANTS = "tests/transports/test_tenant_quotas.py"
_BROUGHT = f"{_TENANTS}::test_each_call_that_brings_ids_is_its_tenants_in_each_encoding"

QUOTAS: tuple[Mutant, ...] = (
    one(
        "an hour of rest saves up an hour's ids",
        "oncegate.engine.quotas::Bucket.wait_ms",
        replace("min(self._left + grown, float(self._per_second))", "self._left + grown"),
        f"{_RATES}::test_a_second_s_worth_passes_at_once_and_then_as_much_as_time_brings",
    ),
    one(
        "a large request is charged to no quota",
        "oncegate.engine.quotas::Bucket.take",
        replace_statement("self._left -= count", "self._left = max(0.0, self._left - count)"),
        f"{_RATES}::test_a_request_larger_than_a_second_passes_and_later_ones_wait_until_it_is_paid_for",
    ),
    one(
        "who has brought too many bytes cannot settle",
        "oncegate.engine.quotas::Rates.take_bytes",
        replace("count > NEVER_REFUSED_BYTES", "True"),
        f"{_RATES}::test_refusals_are_counted_by_quota_and_have_a_delay",
    ),
    one(
        "a large disk keeps a tenth of itself free of stages",
        "oncegate.engine.limits::Limits.disk_floor_bytes",
        replace(
            "min(int(total_bytes * self.disk_free_fraction), self.disk_free_bytes)",
            "int(total_bytes * self.disk_free_fraction)",
        ),
        "tests/engine/usecases/test_stage_quota.py::test_of_a_large_disk_no_more_than_disk_free_bytes_stay_free",
    ),
    one(
        "bytes are not limited",
        "oncegate.transports.incoming::admit",
        delete("serving.rates.take_bytes(...)"),
        f"{_DOORS}::test_a_request_over_a_quota_is_refused_before_any_effect_with_a_retry_delay",
    ),
    one(
        "ids are counted once they are claimed",
        "oncegate.engine.usecases.claims::Claims.claim",
        delete("journal.rates.take_ids(...)"),
        f"{_RATES}::test_claimed_ids_can_be_claimed_again_completed_and_released_whatever_the_rate",
    ),
    one(
        "a refusal names the same wait for every size of request",
        "oncegate.transports.http.problems::document",
        replace("error.extra.get('retry_after_ms', error.retry_after_ms)", "error.retry_after_ms"),
        f"{_DOORS}::test_one_namespaces_requests_consume_no_others_quota",
    ),
    one(
        "a tenant's ids are counted by namespace alone",
        "oncegate.engine.quotas::Rates.take_ids",
        replace("tenant.ids.wait_ms()", "0"),
        f"{_TENANTS}::test_a_tenants_requests_to_one_namespace_consume_only_that_tenants_quota",
    ),
    one(
        "a tenant's bytes are charged to no quota",
        "oncegate.engine.quotas::Rates.take_bytes",
        delete("tenant.size_bytes.take(...)"),
        f"{_TENANTS}::test_a_tenants_requests_to_one_namespace_consume_only_that_tenants_quota",
    ),
    one(
        "each credential is a tenant of its own",
        "oncegate.transports.access.principal::Principal.whose",
        replace("f'tenant {self.tenant}' if self.tenant else f'name {self.name}'", "f'name {self.name}'"),
        f"{_TENANTS}::test_both_doors_count_for_one_tenant",
        "tests/transports/access/test_tokens.py::test_tokens_name_their_tenant_by_one_claim_and_one_that_names_none_is_refused",
    ),
    one(
        "requests over gRPC are nobody's",
        "oncegate.transports.incoming::admit",
        replace("principal.whose", "None"),
        f"{_TENANTS}::test_both_doors_count_for_one_tenant",
    ),
    one(
        "claims that are decided together are granted whatever their tenant has open",
        "oncegate.engine.usecases.claim_batching::ClaimBatcher._grant",
        replace(("any((tenant is not None and (not tenant.has_room(len(batch))) for tenant in tenants))"), "False"),
        "tests/engine/test_tenants.py::test_of_many_claims_at_once_no_more_are_granted_than_the_tenant_may_have_open",
    ),
    one(
        "a tenant at its bound cannot repeat a call whose answer was lost",
        "oncegate.engine.usecases.claim_batching::ClaimBatcher.decide",
        insert(
            "self._check_open(request.tenant)",
            after="claim, rests_on, wall_ms, duplicates = (None, decision.rests_on, journal.wall_ms(), None)",
        ),
        f"{_TENANTS}::test_a_tenants_open_claims_are_counted_over_the_namespaces_of_its_credential",
    ),
    one(
        "a tenant makes as many namespaces as there may be",
        "oncegate.engine.gateway::Gateway._made",
        delete("tenant.check_namespaces(...)"),
        f"{_TENANTS}::test_a_tenant_makes_no_more_namespaces_than_it_may_have",
    ),
    one(
        "a token without a tenant has its quotas alone",
        "oncegate.transports.access.tokens::BearerTokens._tenant",
        replace_statement(
            "if len(names) != 1:\n    ...",
            (
                "if len(names) > 1:\n"
                "    return names[0]\n"
                "if not names:\n"
                "    return ''\n"
                "if False:\n"
                "    raise _refused('names no tenant, or more than one, in its tenant claim')"
            ),
        ),
        "tests/transports/access/test_tokens.py::test_tokens_name_their_tenant_by_one_claim_and_one_that_names_none_is_refused",
    ),
    *(
        one(f"{brought} is nobody's", f"oncegate.transports.{address}", without("sender="), f"{_BROUGHT}[{brought}]")
        for brought, address in (
            ("claim-JSON", "http.routes.claims::_request_of_json"),
            ("claim-packed", "http.routes.claims::_request_of_raw"),
            ("take-packed", "http.routes.claims::_take_request"),
            ("sequences-JSON", "http.routes.producers::_request_of_json"),
            ("sequences-packed", "http.routes.producers::_request_of_raw"),
            ("produce-Arrow", "writes::produce_request"),
        )
    ),
    one(
        "look_up-JSON is nobody's",
        "oncegate.transports.http.routes.claims::_look_up_request",
        without("call.admitted.sender"),
        f"{_BROUGHT}[look_up-JSON]",
    ),
    *(
        one(
            f"{brought} is nobody's",
            f"oncegate.transports.{address}",
            replace("call.admitted.sender.tenant", "None"),
            f"{_BROUGHT}[{brought}]",
        )
        for brought, address in (
            ("forget", "http.routes.operator::forget"),
            ("import", "http.routes.operator::take_in"),
        )
    ),
)
