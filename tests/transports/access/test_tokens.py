"""Tokens of an issuer: the accepted ones, their rights, and how soon new and withdrawn keys apply."""

import base64
import hmac
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt

from oncegate.core.errors import Forbidden, KeysUnread, OncegateError, Unauthenticated
from oncegate.testing.clock import FakeClock
from oncegate.transports.access import issuer_keys, keys
from oncegate.transports.access.access import Access
from oncegate.transports.access.issuer_keys import (
    ASK_AGAIN_MS,
    READING_MS,
    REFRESH_MS,
    IssuerKeys,
    IssuerKeysUnreadable,
)
from oncegate.transports.access.rights import CALLS, Role
from oncegate.transports.access.tokens import BearerTokens, TokenRules
from tests.support.event_waiter import EventWaiter
from tests.support.issuer import AUDIENCE, URL, Issuer, Published, publishing

RULES = TokenRules(URL, AUDIENCE, ("RS256", "ES256"), "oncegate_roles", "oncegate_namespaces", 30_000)


class Gate:
    """Access by tokens only, on a manual clock."""

    def __init__(self, source: str, rules: TokenRules = RULES, clock: FakeClock | None = None) -> None:
        self.clock, self.heard = clock or FakeClock(), EventWaiter()
        self.keys = IssuerKeys(source, self.clock, self.heard)
        self.access = Access(None, self.clock, self.heard, BearerTokens(rules, self.keys, self.clock))

    def refusal(self, token: str, call: str = "claimIds", namespace: str = "mail") -> OncegateError | None:
        return refusal(self.access, call, namespace, token)

    def says(self, token: str) -> str:
        refused = self.refusal(token)
        assert isinstance(refused, Unauthenticated), refused
        return refused.detail


def refusal(access: Access, call: str, namespace: str, shown: str) -> OncegateError | None:
    try:
        access.permit(call, namespace, shown)
    except OncegateError as error:
        return error
    return None


@pytest.fixture
def issuer() -> Issuer:
    return Issuer(FakeClock().wall_ms() // 1_000)


@pytest.fixture
def gate(issuer: Issuer, tmp_path: Path) -> Gate:
    (file := tmp_path / "keys.json").write_bytes(issuer.document)
    return Gate(str(file))


@pytest.fixture
def published(issuer: Issuer) -> Iterator[Published]:
    with publishing(issuer) as shown:
        yield shown


def test_a_token_allows_exactly_what_its_claims_grant(gate: Gate, issuer: Issuer) -> None:
    token = issuer.token()
    principal = gate.access.permit("claimIds", "mail", token)
    assert principal is not None
    assert (principal.name, principal.roles, principal.namespaces) == ("loader", {Role.WRITE}, {"mail"})
    assert gate.refusal(token) is None  # remembered
    for call, namespace in (("registerDriver", "mail"), ("claimIds", "other"), ("getMetrics", "mail")):
        assert isinstance(gate.refusal(token, call, namespace), Forbidden)


def test_a_token_and_a_key_with_the_same_roles_and_namespaces_may_make_the_same_calls(
    gate: Gate, issuer: Issuer, tmp_path: Path
) -> None:
    for role in Role:
        for namespaces in (["mail"], ["*"]):
            key, text = keys.made("k", [role], namespaces, 0)
            keys.write(tmp_path / "file", [key])
            by_key = Access(tmp_path / "file", gate.clock, gate.heard)
            token = issuer.token(oncegate_roles=[role.value], oncegate_namespaces=namespaces)
            both = [(by_key, text), (gate.access, token)]
            for call in CALLS:
                for namespace in ("mail", "other"):
                    refused = [refusal(one, call, namespace, shown) for one, shown in both]
                    assert type(refused[0]) is type(refused[1]), (role, namespaces, call, namespace)


@pytest.mark.parametrize(
    ("claims", "names"),
    [
        ({"oncegate_roles": "ack write", "oncegate_namespaces": "mail"}, ("oncegate_roles", "oncegate_namespaces")),
        ({"realm": {"roles": ["write", "offline_access"]}, "tenant": "mail"}, ("realm.roles", "tenant")),
        ({"https://x.example/roles": ["write"], "tenant": ["mail"]}, ("https://x.example/roles", "tenant")),
    ],
)
def test_claims_are_lists_or_words_and_may_be_inside_objects(
    claims: dict[str, Any], names: tuple[str, str], issuer: Issuer, tmp_path: Path
) -> None:
    (file := tmp_path / "keys.json").write_bytes(issuer.document)
    rules = TokenRules(URL, AUDIENCE, ("ES256",), *names, 30_000)
    token = issuer.token(**{"oncegate_roles": None, "oncegate_namespaces": None} | claims)
    assert Gate(str(file), rules).refusal(token) is None


@pytest.mark.parametrize("wrong", [None, 7, {"write": True}, [["write"]], ["WRITE"], "", "*"])
def test_roles_that_are_none_allow_nothing(wrong: Any, gate: Gate, issuer: Issuer) -> None:
    assert isinstance(gate.refusal(issuer.token(oncegate_roles=wrong)), Forbidden)
    assert isinstance(gate.refusal(issuer.token(oncegate_namespaces=wrong if wrong != "*" else None)), Forbidden)


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ({"iss": "https://other.example"}, "iss"),
        ({"iss": URL + "/"}, "iss"),
        ({"iss": [URL]}, "iss"),
        ({"iss": None}, "lacks a claim"),
        ({"aud": "other"}, "aud"),
        ({"aud": ["other", "more"]}, "aud"),
        ({"aud": None}, "lacks a claim"),
        ({"exp": None}, "lacks a claim"),
        ({"exp": "tomorrow"}, "exp"),
        ({"exp": float("nan")}, ""),
        ({"nbf": "never"}, "nbf"),
    ],
)
def test_a_token_of_others_for_others_or_without_an_end_is_refused(
    claims: dict[str, Any], told: str, gate: Gate, issuer: Issuer
) -> None:
    assert told in gate.says(issuer.token(**claims))
    assert gate.refusal(issuer.token(aud=["other", AUDIENCE])) is None


def test_clocks_may_differ_by_the_leeway_and_no_more(gate: Gate, issuer: Issuer) -> None:
    now_s = issuer.now_s
    assert gate.refusal(issuer.token(exp=now_s - 29)) is None
    assert "has expired" in gate.says(issuer.token(exp=now_s - 30))
    for claim in ("nbf", "iat"):
        assert gate.refusal(issuer.token(**{claim: now_s + 30})) is None
        assert claim in gate.says(issuer.token(**{claim: now_s + 31}))


def test_a_remembered_token_ends_at_its_expiry(gate: Gate, issuer: Issuer) -> None:
    token = issuer.token(exp=issuer.now_s + 1)
    assert gate.refusal(token) is None
    gate.clock.advance(30_999)
    assert gate.refusal(token) is None
    gate.clock.advance(1)
    assert "has expired" in gate.says(token)


def test_a_token_that_comes_too_early_is_taken_later(gate: Gate, issuer: Issuer) -> None:
    token = issuer.token(nbf=issuer.now_s + 40)
    assert "nbf" in gate.says(token)
    gate.clock.advance(10_000)
    assert gate.refusal(token) is None


def encoded(part: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def by_secret(text: str, secret: bytes) -> str:
    """Returns a token signed with a public key as a secret, which the library itself refuses to make."""
    signature = hmac.digest(secret, text.encode(), "sha256")
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def test_no_token_without_the_issuers_signature_is_taken(gate: Gate, issuer: Issuer) -> None:
    good = issuer.token()
    head, body, signature = good.split(".")
    admin = encoded(issuer.claims(oncegate_roles=["admin"]))
    kid = issuer.keys[-1].kid
    stranger = Issuer(issuer.now_s)  # whose key has the same id
    secrets = [issuer.keys[-1].as_pem(private=False), issuer.document, issuer.keys[-1].as_der(private=False)]
    wrong = {
        "none": f"{encoded({'alg': 'none', 'kid': kid})}.{body}.",
        "None": f"{encoded({'alg': 'None', 'kid': kid})}.{body}.",
        "unsigned": f"{head}.{body}.",
        "other claims": f"{head}.{admin}.{signature}",
        "other's key": stranger.token(),
        "no algorithm": f"{encoded({'kid': kid})}.{body}.{signature}",
        "brought along": jwt.encode(
            {"alg": "ES256", "jwk": stranger.keys[-1].as_dict(private=False)}, issuer.claims(), stranger.keys[-1]
        ),
        "critical": f"{encoded({'alg': 'ES256', 'kid': kid, 'crit': ['b64'], 'b64': False})}.{body}.{signature}",
        "no JSON": "a.b.c",
        "empty": "..",
        "no ASCII": f"{head}.{body}.\u00e9",
        "long": issuer.token(padding="x" * (8 << 10)),
        "list": f"{encoded(['alg'])}.{body}.{signature}",
        **{
            f"secret {n}": by_secret(f"{encoded({'alg': 'HS256', 'kid': kid})}.{body}", secret)
            for n, secret in enumerate(secrets)
        },
    }
    for name, token in wrong.items():
        assert isinstance(gate.refusal(token), Unauthenticated), name
        assert token not in gate.says(token)
    assert gate.refusal(good) is None


def test_an_algorithm_that_is_not_in_the_settings_is_refused_though_the_key_would_do(tmp_path: Path) -> None:
    issuer = Issuer(FakeClock().wall_ms() // 1_000)
    issuer.rotate("RSA")
    (file := tmp_path / "keys.json").write_bytes(issuer.document)
    gate = Gate(str(file))
    assert gate.refusal(issuer.token()) is None
    assert "algorithm" in gate.says(issuer.token(header={"alg": "PS256"}))
    assert "algorithm" in gate.says(issuer.token(issuer.keys[0], header={"kid": issuer.keys[1].kid}))


def test_a_token_without_a_keys_id_is_of_the_only_key_or_refused(gate: Gate, issuer: Issuer, tmp_path: Path) -> None:
    unnamed = jwt.encode({"alg": "ES256"}, issuer.claims(), issuer.keys[-1])
    assert gate.refusal(unnamed) is None
    issuer.rotate()
    (file := tmp_path / "both.json").write_bytes(issuer.document)
    assert "does not publish" in Gate(str(file)).says(unnamed)


def test_a_file_of_keys_that_changes_counts_a_second_later_and_a_broken_one_changes_nothing(
    gate: Gate, issuer: Issuer, tmp_path: Path
) -> None:
    file, old = tmp_path / "keys.json", issuer.token()
    assert gate.refusal(old) is None
    issuer.rotate()
    new = issuer.token()
    assert "does not publish" in gate.says(new)
    file.write_bytes(issuer.document)
    gate.clock.advance(999)
    assert "does not publish" in gate.says(new)
    gate.clock.advance(1)
    assert gate.refusal(new) is None
    file.write_bytes(b"{")
    gate.clock.advance(1_000)
    assert gate.refusal(old) is None
    assert [name for name, _ in gate.heard.events].count("issuer_keys_unreadable") == 1
    del issuer.published[0]
    file.write_bytes(issuer.document + b"\n")
    gate.clock.advance(1_000)
    assert "does not publish" in gate.says(old)  # also a remembered one


def test_a_new_key_at_a_url_is_asked_for_once_and_its_token_taken_then(published: Published) -> None:
    issuer = published.issuer
    gate = Gate(published.url)
    gate.heard.wait("issuer_keys_read")
    assert gate.refusal(issuer.token()) is None
    issuer.rotate()
    token = issuer.token()
    assert "does not publish" in gate.says(token)  # it was asked just now
    gate.clock.advance(ASK_AGAIN_MS)
    assert isinstance(gate.refusal(token), KeysUnread)
    gate.heard.wait("issuer_keys_read", 2)
    assert gate.refusal(token) is None
    for n in range(20):
        assert isinstance(gate.refusal(issuer.token(header={"kid": f"made up {n}"})), (Unauthenticated, KeysUnread))
    gate.clock.advance(ASK_AGAIN_MS)
    assert isinstance(gate.refusal(issuer.token(header={"kid": "made up"})), KeysUnread)
    gate.heard.wait("issuer_keys_read", 3)
    for n in range(20):
        assert isinstance(gate.refusal(issuer.token(header={"kid": f"made up {n}"})), Unauthenticated)
    assert published.asked == 3


def test_a_withdrawn_key_at_a_url_counts_no_longer_than_the_refresh(published: Published) -> None:
    issuer = published.issuer
    issuer.rotate()
    gate, old = Gate(published.url), issuer.token(issuer.keys[0], exp=issuer.now_s + 3_600)
    gate.heard.wait("issuer_keys_read")
    assert gate.refusal(old) is None
    del issuer.published[0]
    gate.clock.advance(REFRESH_MS)
    gate.refusal(old)  # starts a reading
    gate.heard.wait("issuer_keys_read", 2)
    gate.clock.advance(ASK_AGAIN_MS - 1)
    assert "does not publish" in gate.says(old)


def test_keys_that_come_after_their_reading_was_given_up_bring_no_withdrawn_key_back(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer is abandoned after a minute's silence, and arrives after a newer one."""
    issuer, late, begun, readings = published.issuer, threading.Event(), threading.Event(), list[threading.Thread]()
    issuer.rotate()
    old, both, fetched = issuer.token(issuer.keys[0], exp=issuer.now_s + 3_600), issuer.document, issuer_keys.fetched

    def hangs(source: str) -> bytes:
        monkeypatch.setattr(issuer_keys, "fetched", fetched)
        readings.append(threading.current_thread())
        begun.set()
        assert late.wait(30)
        return both

    monkeypatch.setattr(issuer_keys, "fetched", hangs)
    gate = Gate(published.url)
    assert begun.wait(30)
    del issuer.published[0]
    gate.clock.advance(READING_MS)
    gate.refusal(old)
    gate.heard.wait("issuer_keys_read")
    assert "does not publish" in gate.says(old)
    late.set()
    readings[0].join(30)
    assert not readings[0].is_alive()
    assert "does not publish" in gate.says(old)


def test_an_issuer_that_is_down_ends_no_token_but_a_gateway_that_never_asked_it_keeps_them_waiting(
    published: Published,
) -> None:
    issuer, published.status = published.issuer, 503
    gate, token = Gate(published.url), issuer.token()
    gate.heard.wait("issuer_keys_unreadable")
    refused = gate.refusal(token)
    assert isinstance(refused, KeysUnread)
    assert (refused.action, refused.retry_after_ms) == ("retry", 1_000)
    published.status = 200
    gate.clock.advance(ASK_AGAIN_MS)
    gate.refusal(token)
    gate.heard.wait("issuer_keys_read")
    assert gate.refusal(token) is None
    published.status = 500
    gate.clock.advance(REFRESH_MS)
    assert gate.refusal(token) is None
    gate.heard.wait("issuer_keys_unreadable", 2)
    assert gate.refusal(issuer.token(oncegate_roles=["write", "ack"])) is None


@pytest.mark.parametrize("status", [301, 302, 307])
def test_keys_of_another_address_are_not_followed_to(status: int, published: Published) -> None:
    published.status, published.headers = status, {"Location": published.url}
    gate = Gate(published.url)
    gate.heard.wait("issuer_keys_unreadable")
    assert published.asked == 1
    assert isinstance(gate.refusal(published.issuer.token()), KeysUnread)


@pytest.mark.parametrize("url", ["http://issuer.example/keys", "ftp://127.0.0.1/keys", "http://127.evil.example/"])
def test_keys_that_others_could_replace_on_the_way_are_not_asked_for(url: str) -> None:
    with pytest.raises(IssuerKeysUnreadable, match="use https://"):
        Gate(url)


def test_sets_that_hold_secrets_or_no_keys_are_refused(tmp_path: Path, issuer: Issuer) -> None:
    private = {"keys": [issuer.keys[0].as_dict(private=True)]}
    twice = {"keys": [issuer.keys[0].as_dict(private=False)] * 2}
    for content, told in (
        (b"", "not a (set of keys|JWK Set)"),
        (b"[]", "not a (set of keys|JWK Set)"),
        (b'{"keys": []}', "not a (set of keys|JWK Set)"),
        (b'{"keys": [7]}', "not a (set of keys|JWK Set)"),
        (b"[" * 100_000, "not a (set of keys|JWK Set)"),
        (json.dumps(private).encode(), "secret or private"),
        (json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}).encode(), "secret or private"),
        (json.dumps(twice).encode(), "same id"),
        (b" " * ((1 << 20) + 1), "not a (set of keys|JWK Set)"),
    ):
        (file := tmp_path / "set").write_bytes(content)
        with pytest.raises(IssuerKeysUnreadable, match=told):
            Gate(str(file))
    with pytest.raises(IssuerKeysUnreadable, match="No such file"):
        Gate(str(tmp_path / "missing"))


def test_tokens_name_their_tenant_by_one_claim_and_one_that_names_none_is_refused(
    issuer: Issuer, tmp_path: Path
) -> None:
    (file := tmp_path / "keys.json").write_bytes(issuer.document)
    gate = Gate(str(file), replace(RULES, tenant_claim="org.name"))
    for sub in ("one", "two"):
        found = gate.access.permit("claimIds", "mail", issuer.token(sub=sub, org={"name": "acme"}))
        assert found is not None
        assert found.whose == ("tenant acme", {"mail"})
    for wrong in (None, {}, {"name": ["acme", "other"]}, {"name": 7}, {"name": ""}):
        assert "names no tenant" in gate.says(issuer.token(org=wrong))
    alone = Gate(str(file)).access.permit("claimIds", "mail", issuer.token(org={"name": "acme"}))
    assert alone is not None
    assert alone.whose == ("name loader", {"mail"})
