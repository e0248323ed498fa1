"""Planted bugs of tokens: which are accepted, for how long, and under which keys."""

from tests.mutants.edits import delete, replace, replace_statement
from tests.mutants.mutant import Mutant, one

_TOKENS = "tests/transports/access/test_tokens.py"
_DISCOVERY = "tests/transports/access/test_discovery.py"

TOKENS: tuple[Mutant, ...] = (
    one(
        "a token's signature is not looked at",
        "oncegate.transports.access.tokens::BearerTokens.check",
        replace(
            "jwt.decode(token, key, registry=self._registry).claims",
            "__import__('json').loads(jws.extract_compact(token.encode()).payload)",
        ),
        f"{_TOKENS}::test_no_token_without_the_issuers_signature_is_taken",
    ),
    one(
        "any algorithm that the library knows will do",
        "oncegate.transports.access.tokens::BearerTokens.__init__",
        replace("rules.algorithms", "(*ALGORITHMS, 'HS256', 'none')"),
        f"{_TOKENS}::test_an_algorithm_that_is_not_in_the_settings_is_refused_though_the_key_would_do",
    ),
    one(
        "a token of another issuer is taken",
        "oncegate.transports.access.tokens::BearerTokens._rules_kept",
        replace("{'essential': True, 'value': rules.issuer}", "{'essential': True}"),
        f"{_TOKENS}::test_a_token_of_others_for_others_or_without_an_end_is_refused",
    ),
    one(
        "a token for another service is taken",
        "oncegate.transports.access.tokens::BearerTokens._rules_kept",
        replace("{'essential': True, 'value': rules.audience}", "{'essential': True}"),
        f"{_TOKENS}::test_a_token_of_others_for_others_or_without_an_end_is_refused",
    ),
    one(
        "a token without an end is taken",
        "oncegate.transports.access.tokens::BearerTokens._rules_kept",
        replace("{'essential': True}", "{'essential': False}"),
        f"{_TOKENS}::test_a_token_of_others_for_others_or_without_an_end_is_refused",
    ),
    one(
        "a token that is remembered never ends",
        "oncegate.transports.access.access::Access._principal",
        replace("principal.until_ms is not None and self._clock.wall_ms() >= principal.until_ms", "False"),
        f"{_TOKENS}::test_a_remembered_token_ends_at_its_expiry",
    ),
    one(
        "clocks may differ by twice the leeway",
        "oncegate.transports.access.tokens::BearerTokens._rules_kept",
        replace("rules.leeway_ms // 1000", "rules.leeway_ms // 500"),
        f"{_TOKENS}::test_clocks_may_differ_by_the_leeway_and_no_more",
    ),
    one(
        "tokens that were taken outlive their withdrawn key",
        "oncegate.transports.access.access::Access._principal",
        delete("self._checked.clear()"),
        f"{_TOKENS}::test_a_withdrawn_key_at_a_url_counts_no_longer_than_the_refresh",
    ),
    one(
        "each made-up key has the issuer asked",
        "oncegate.transports.access.issuer_keys::IssuerKeys._may_be_new",
        replace("self._clock.monotonic_ms() - self._asked_at_ms < ASK_AGAIN_MS", "False"),
        f"{_TOKENS}::test_a_new_key_at_a_url_is_asked_for_once_and_its_token_taken_then",
    ),
    Mutant(
        "a new key waits for the refresh",
        (
            (
                "oncegate.transports.access.issuer_keys::IssuerKeys._may_be_new",
                replace_statement("self._begin()", "return False"),
            ),
            ("oncegate.transports.access.issuer_keys::IssuerKeys._may_be_new", delete("return True", nth=2)),
        ),
        (f"{_TOKENS}::test_a_new_key_at_a_url_is_asked_for_once_and_its_token_taken_then",),
    ),
    one(
        "a set with secret keys is taken",
        "oncegate.transports.access.issuer_keys::_keys_in",
        replace("any((entry.get('kty') == 'oct' or 'd' in entry for entry in entries))", "False"),
        f"{_TOKENS}::test_sets_that_hold_secrets_or_no_keys_are_refused",
    ),
    one(
        "the issuer's keys come from wherever it is redirected to",
        "oncegate.transports.access.fetching::_opener",
        replace("urllib.request.build_opener(_Stay)", "urllib.request.build_opener()"),
        f"{_TOKENS}::test_keys_of_another_address_are_not_followed_to",
    ),
    one(
        "the issuer's keys may come in clear text",
        "oncegate.transports.access.fetching::check_address",
        replace(
            ("not url.startswith('https://') and (not (own and url.startswith('http://') and is_own(url)))"), "False"
        ),
        f"{_TOKENS}::test_keys_that_others_could_replace_on_the_way_are_not_asked_for",
    ),
    one(
        "another issuer's configuration will do",
        "oncegate.transports.access.discovery::Discovery._keys_url",
        replace("configuration.get('issuer') != self._issuer", "configuration.get('issuer', self._issuer) is None"),
        f"{_DISCOVERY}::test_a_configuration_that_is_not_the_issuers_own_names_no_keys",
    ),
    one(
        "a configuration names keys anywhere",
        "oncegate.transports.access.discovery::Discovery._keys_url",
        delete("check_address(...)"),
        f"{_DISCOVERY}::test_a_configuration_that_is_not_the_issuers_own_names_no_keys",
    ),
    Mutant(
        "keys are looked for where they were for ever",
        (
            ("oncegate.transports.access.discovery::Discovery.keys", replace("(known, self._address)", "known")),
            (
                "oncegate.transports.access.discovery::Discovery.keys",
                replace("(self._address, None)", "self._address and (self._address[0], 1 << 62)"),
            ),
        ),
        (
            f"{_DISCOVERY}::test_a_configuration_is_asked_for_again_after_an_hour_and_keys_each_five_minutes",
            f"{_DISCOVERY}::test_keys_that_moved_are_found_where_the_configuration_has_them_now",
        ),
    ),
    one(
        "a key that could not be fetched is reported as unknown",
        "oncegate.transports.access.issuer_keys::IssuerKeys._may_be_new",
        replace("self._has_failed", "False"),
        f"{_DISCOVERY}::test_while_the_issuer_is_down_known_keys_count_and_unknown_ones_get_a_retry",
    ),
    one(
        "a reading that never ends is waited for for ever",
        "oncegate.transports.access.issuer_keys::IssuerKeys._is_reading",
        replace("self._clock.monotonic_ms() - self._asked_at_ms >= READING_MS", "False"),
        f"{_DISCOVERY}::test_an_issuer_that_never_ends_its_answer_is_abandoned_and_asked_again",
    ),
)
