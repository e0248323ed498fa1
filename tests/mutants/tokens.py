"""Planted bugs of tokens: whose are taken, for how long, and by which keys."""

from tests.mutants.mutant import Mutant, one

ACCESS = "service/oncegate/transports/access"
_TOKENS = "tests/transports/access/test_tokens.py"
_DISCOVERY = "tests/transports/access/test_discovery.py"

TOKENS: tuple[Mutant, ...] = (
    one(
        "a token's signature is not looked at",
        f"{ACCESS}/tokens.py",
        "            claims = jwt.decode(token, key, registry=self._registry).claims\n",
        "            claims = __import__('json').loads(jws.extract_compact(token.encode()).payload)\n",
        f"{_TOKENS}::test_no_token_without_the_issuers_signature_is_taken",
    ),
    one(
        "any algorithm that the library knows will do",
        f"{ACCESS}/tokens.py",
        "JWSRegistry(algorithms=rules.algorithms, ",
        "JWSRegistry(algorithms=(*ALGORITHMS, 'HS256', 'none'), ",
        f"{_TOKENS}::test_an_algorithm_that_is_not_in_the_settings_is_refused_though_the_key_would_do",
    ),
    one(
        "a token of another issuer is taken",
        f"{ACCESS}/tokens.py",
        'iss={"essential": True, "value": rules.issuer}',
        'iss={"essential": True}',
        f"{_TOKENS}::test_a_token_of_others_for_others_or_without_an_end_is_refused",
    ),
    one(
        "a token for another service is taken",
        f"{ACCESS}/tokens.py",
        'aud={"essential": True, "value": rules.audience}',
        'aud={"essential": True}',
        f"{_TOKENS}::test_a_token_of_others_for_others_or_without_an_end_is_refused",
    ),
    one(
        "a token without an end is taken",
        f"{ACCESS}/tokens.py",
        'exp={"essential": True}',
        'exp={"essential": False}',
        f"{_TOKENS}::test_a_token_of_others_for_others_or_without_an_end_is_refused",
    ),
    one(
        "a token that is remembered never ends",
        f"{ACCESS}/access.py",
        "        if found.until_ms is not None and self._clock.wall_ms() >= found.until_ms:\n",
        "        if False:\n",
        f"{_TOKENS}::test_a_token_that_is_remembered_ends_when_it_says",
    ),
    one(
        "clocks may differ by twice the leeway",
        f"{ACCESS}/tokens.py",
        "leeway=rules.leeway_ms // 1_000,",
        "leeway=rules.leeway_ms // 500,",
        f"{_TOKENS}::test_clocks_may_differ_by_the_leeway_and_no_more",
    ),
    one(
        "tokens that were taken outlive their withdrawn key",
        f"{ACCESS}/access.py",
        "            self._tokens_version = self._tokens.version\n            self._checked.clear()\n",
        "            self._tokens_version = self._tokens.version\n",
        f"{_TOKENS}::test_a_withdrawn_key_at_a_url_counts_no_longer_than_the_refresh",
    ),
    one(
        "each made-up key has the issuer asked",
        f"{ACCESS}/issuer_keys.py",
        "        if self._clock.monotonic_ms() - self._asked_at_ms < ASK_AGAIN_MS:\n",
        "        if False:\n",
        f"{_TOKENS}::test_a_new_key_at_a_url_is_asked_for_once_and_its_token_taken_then",
    ),
    one(
        "a new key waits for the refresh",
        f"{ACCESS}/issuer_keys.py",
        "            return self._has_failed\n        self._begin()\n        return True\n",
        "            return self._has_failed\n        return False\n",
        f"{_TOKENS}::test_a_new_key_at_a_url_is_asked_for_once_and_its_token_taken_then",
    ),
    one(
        "a set with secret keys is taken",
        f"{ACCESS}/issuer_keys.py",
        """        if any(one.get("kty") == "oct" or "d" in one for one in entries):\n""",
        "        if False:\n",
        f"{_TOKENS}::test_sets_that_hold_secrets_or_no_keys_are_refused",
    ),
    one(
        "the issuer's keys come from wherever it is redirected to",
        f"{ACCESS}/fetching.py",
        "urllib.request.build_opener(_Stay)",
        "urllib.request.build_opener()",
        f"{_TOKENS}::test_keys_of_another_address_are_not_followed_to",
    ),
    one(
        "the issuer's keys may come in clear text",
        f"{ACCESS}/fetching.py",
        """    if not url.startswith("https://") and not (own and url.startswith("http://") and is_own(url)):\n""",
        "    if False:\n",
        f"{_TOKENS}::test_keys_that_others_could_replace_on_the_way_are_not_asked_for",
    ),
    one(
        "another issuer's configuration will do",
        f"{ACCESS}/discovery.py",
        '        if configuration.get("issuer") != self._issuer:\n',
        '        if configuration.get("issuer", self._issuer) is None:\n',
        f"{_DISCOVERY}::test_a_configuration_that_is_not_the_issuers_own_names_no_keys",
    ),
    one(
        "a configuration names keys anywhere",
        f"{ACCESS}/discovery.py",
        "        check_address(url, own=is_own(self._issuer))\n",
        "",
        f"{_DISCOVERY}::test_a_configuration_that_is_not_the_issuers_own_names_no_keys",
    ),
    one(
        "keys are looked for where they were for ever",
        f"{ACCESS}/discovery.py",
        "        known, self._found = self._found, None\n",
        "        known = self._found and (self._found[0], 1 << 62)\n",
        f"{_DISCOVERY}::test_a_configuration_is_asked_for_again_after_an_hour_and_keys_each_five_minutes",
        f"{_DISCOVERY}::test_keys_that_moved_are_found_where_the_configuration_has_them_now",
    ),
    one(
        "a key that nobody could ask for is told to be none",
        f"{ACCESS}/issuer_keys.py",
        "            return self._has_failed\n",
        "            return False\n",
        f"{_DISCOVERY}::test_while_the_issuer_is_down_known_keys_count_and_unknown_ones_are_told_to_come_again",
    ),
    one(
        "a reading that never ends is waited for for ever",
        f"{ACCESS}/issuer_keys.py",
        "is_late = self._clock.monotonic_ms() - self._asked_at_ms >= READING_MS",
        "is_late = False",
        f"{_DISCOVERY}::test_an_issuer_that_never_ends_its_answer_is_given_up_and_asked_anew",
    ),
)
