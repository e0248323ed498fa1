"""An issuer's keys found by its name, from a real HTTP server: the configuration used, for how long, and the tokens
while the issuer is unavailable."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from oncegate.core.errors import KeysUnread, OncegateError, Unauthenticated
from oncegate.testing.clock import FakeClock
from oncegate.transports.access import discovery
from oncegate.transports.access.access import Access
from oncegate.transports.access.discovery import DISCOVERED_MS, WELL_KNOWN
from oncegate.transports.access.issuer_keys import (
    ASK_AGAIN_MS,
    READING_MS,
    REFRESH_MS,
    IssuerKeys,
    IssuerKeysUnreadable,
)
from oncegate.transports.access.tokens import BearerTokens, TokenRules
from tests.support.event_waiter import EventWaiter
from tests.support.issuer import AUDIENCE, Issuer, Published, publishing

RULES = TokenRules("", AUDIENCE, ("RS256", "ES256"), "oncegate_roles", "oncegate_namespaces", 30_000)
CONFIGURATION = "/realm/.well-known/openid-configuration"


class Gate:
    """Access by tokens of an issuer that is asked for its keys, on a manual clock."""

    def __init__(self, issuer: str) -> None:
        self.clock, self.heard = FakeClock(), EventWaiter()
        self.keys = IssuerKeys(issuer, self.clock, self.heard, discovered=True)
        self.access = Access(
            None, self.clock, self.heard, BearerTokens(replace(RULES, issuer=issuer), self.keys, self.clock)
        )

    def refusal(self, token: str) -> OncegateError | None:
        try:
            self.access.permit("claimIds", "mail", token)
        except OncegateError as error:
            return error
        return None

    def read(self, times: int) -> None:
        self.heard.wait("issuer_keys_read", times)

    def why(self, times: int = 1) -> str:
        self.heard.wait("issuer_keys_unreadable", times)
        return str([fields for name, fields in self.heard.events if name == "issuer_keys_unreadable"][-1]["detail"])


@pytest.fixture
def published() -> Iterator[Published]:
    with publishing(Issuer(FakeClock().wall_ms() // 1_000)) as shown:
        yield shown


def token(published: Published, **more: Any) -> str:
    return published.issuer.token(**{"iss": published.name, **more})


def test_the_issuer_is_asked_for_its_configuration_and_then_for_the_keys_that_it_names(published: Published) -> None:
    gate = Gate(published.name)
    gate.read(1)
    assert gate.refusal(token(published)) is None
    assert isinstance(gate.refusal(token(published, iss=published.name + "/")), Unauthenticated)
    assert published.paths == [CONFIGURATION, "/keys"]
    assert WELL_KNOWN == "/.well-known/openid-configuration"


def test_a_configuration_is_asked_for_again_after_an_hour_and_keys_each_five_minutes(published: Published) -> None:
    gate = Gate(published.name)
    gate.read(1)
    for n in range(DISCOVERED_MS // REFRESH_MS):
        gate.clock.advance(REFRESH_MS)
        gate.refusal(token(published))
        gate.read(n + 2)
    assert published.paths.count(CONFIGURATION) == 2
    assert published.paths.count("/keys") == DISCOVERED_MS // REFRESH_MS + 1


def test_keys_that_moved_are_found_where_the_configuration_has_them_now(published: Published) -> None:
    gate = Gate(published.name)
    gate.read(1)
    published.moved = True
    gate.clock.advance(REFRESH_MS)
    assert gate.refusal(token(published)) is None
    assert "/keys answers 404" in gate.why()
    published.issuer.rotate()
    gate.clock.advance(ASK_AGAIN_MS)
    assert isinstance(gate.refusal(token(published)), KeysUnread)
    gate.read(2)
    assert gate.refusal(token(published)) is None
    assert published.paths[-2:] == [CONFIGURATION, "/moved"]


@pytest.mark.parametrize(
    ("configuration", "told"),
    [
        (b'{"issuer": "https://other.example", "jwks_uri": "%s"}', "names another issuer"),
        (b'{"jwks_uri": "%s"}', "names another issuer"),
        (b'{"issuer": "NAME/", "jwks_uri": "%s"}', "names another issuer"),
        (b'{"issuer": "NAME"}', "names no jwks_uri"),
        (b'{"issuer": "NAME", "jwks_uri": ["%s"]}', "names no jwks_uri"),
        (b'{"issuer": "NAME", "jwks_uri": "http://keys.example/"}', "use https://"),
        (b'{"issuer": "NAME", "jwks_uri": "file:///etc/passwd"}', "use https://"),
        (b"[]", "not a JSON object"),
        (b"{", "not JSON"),
        (b" " * ((1 << 20) + 1), "more than 1024 KiB"),
    ],
)
def test_a_configuration_that_is_not_the_issuers_own_names_no_keys(
    configuration: bytes, told: str, published: Published
) -> None:
    named = configuration.replace(b"NAME", published.name.encode()).replace(b"%s", published.url.encode())
    published.configuration = named
    gate = Gate(published.name)
    assert told in gate.why()
    assert isinstance(gate.refusal(token(published)), KeysUnread)
    assert published.paths == [CONFIGURATION]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_an_issuer_that_points_elsewhere_is_not_followed(status: int, published: Published) -> None:
    published.status, published.headers = status, {"Location": published.url}
    assert f"answers {status}" in Gate(published.name).why()
    assert published.paths == [CONFIGURATION]


@pytest.mark.parametrize(
    "issuer", ["http://issuer.example", "issuer", "ftp://127.0.0.1/", "http://127.0.0.1.evil.example"]
)
def test_an_issuer_that_others_could_answer_for_is_refused_before_it_is_asked(issuer: str) -> None:
    with pytest.raises(IssuerKeysUnreadable, match="use https://"):
        Gate(issuer)


def test_while_the_issuer_is_down_known_keys_count_and_unknown_ones_get_a_retry(
    published: Published,
) -> None:
    gate, known = Gate(published.name), token(published)
    gate.read(1)
    assert gate.refusal(known) is None
    published.status = 503
    published.issuer.rotate()
    gate.clock.advance(ASK_AGAIN_MS)
    unknown = token(published)
    for n in range(5):
        assert isinstance(gate.refusal(unknown), KeysUnread), n
        gate.why()
        assert isinstance(gate.refusal(unknown), KeysUnread), "it may be valid: the issuer could not be asked"
        assert gate.refusal(known) is None
    assert published.asked == 3
    published.status = 200
    gate.clock.advance(ASK_AGAIN_MS)
    assert isinstance(gate.refusal(unknown), KeysUnread)
    gate.read(2)
    assert gate.refusal(unknown) is None
    gate.clock.advance(1)
    made_up = published.issuer.token(header={"kid": "made up"}, iss=published.name)
    assert isinstance(gate.refusal(made_up), Unauthenticated), "the issuer has answered, and it is none of its keys"


def test_an_issuer_that_is_down_at_the_start_is_asked_until_it_answers(published: Published) -> None:
    published.status = 500
    gate = Gate(published.name)
    assert "answers 500" in gate.why()
    refused = gate.refusal(token(published))
    assert isinstance(refused, KeysUnread)
    assert (refused.action, refused.retry_after_ms) == ("retry", 1_000)
    published.status = 200
    gate.clock.advance(ASK_AGAIN_MS)
    gate.refusal(token(published))
    gate.read(1)
    assert gate.refusal(token(published)) is None


def test_an_issuer_that_never_ends_its_answer_is_abandoned_and_asked_again() -> None:
    """Its connections stay open, and only the gateway's clock advances."""
    asked = threading.Semaphore(0)
    open_ones: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    open_ones.append(server.accept()[0])
                except OSError:
                    return
                asked.release()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        gate = Gate(f"http://127.0.0.1:{server.getsockname()[1]}")
        assert asked.acquire(timeout=30)
        some = Issuer(0).token()
        gate.clock.advance(READING_MS - ASK_AGAIN_MS)
        assert isinstance(gate.refusal(some), KeysUnread)
        assert not asked.acquire(timeout=0)
        gate.clock.advance(ASK_AGAIN_MS)
        assert isinstance(gate.refusal(some), KeysUnread)
        assert asked.acquire(timeout=30)
        for one in open_ones:
            one.close()
        server.shutdown(socket.SHUT_RDWR)
    accepting.join(30)
    assert not accepting.is_alive()


@pytest.mark.parametrize("held", [CONFIGURATION, "/keys"])
def test_a_reading_that_was_given_up_and_ends_late_leads_back_to_no_older_address(
    published: Published, monkeypatch: pytest.MonkeyPatch, held: str
) -> None:
    late, begun, fetched, readings = threading.Event(), threading.Event(), discovery.fetched, list[threading.Thread]()

    def hangs(address: str) -> bytes:
        answer = fetched(address)
        if address.endswith(held):
            monkeypatch.setattr(discovery, "fetched", fetched)
            readings.append(threading.current_thread())
            begun.set()
            assert late.wait(30)
        return answer

    monkeypatch.setattr(discovery, "fetched", hangs)
    gate = Gate(published.name)
    assert begun.wait(30)
    published.moved = True
    gate.clock.advance(READING_MS)
    gate.refusal(token(published))
    gate.read(1)
    late.set()
    readings[0].join(30)
    gate.clock.advance(REFRESH_MS)
    assert gate.refusal(token(published)) is None
    gate.read(2)
    assert published.paths[-1] == "/moved"
    assert published.paths.count(CONFIGURATION) == 2, "where the keys are is known since the second reading"


def test_a_reading_that_was_given_up_and_fails_late_is_no_failure_of_the_newest(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens with keys that the issuer does not have are refused, without a retry."""
    late, begun, fetched = threading.Event(), threading.Event(), discovery.fetched

    def hangs(address: str) -> bytes:
        monkeypatch.setattr(discovery, "fetched", fetched)
        begun.set()
        assert late.wait(30)
        return b"{"

    monkeypatch.setattr(discovery, "fetched", hangs)
    gate = Gate(published.name)
    assert begun.wait(30)
    gate.clock.advance(READING_MS)
    gate.refusal(token(published))
    gate.read(1)
    late.set()
    assert "not JSON" in gate.why()
    assert isinstance(gate.refusal(token(published, header={"kid": "made up"})), Unauthenticated)


def test_an_issuer_of_this_machine_is_asked_itself_whatever_proxy_the_environment_names(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    gate = Gate(published.name)
    gate.read(1)
    assert gate.refusal(token(published)) is None
