"""Keys: their stored form, their rights, and how soon a changed file applies."""

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oncegate.core.errors import Forbidden, OncegateError, Unauthenticated
from oncegate.testing.clock import FakeClock
from oncegate.transports.access import access, keys
from oncegate.transports.access.access import Access
from oncegate.transports.access.rights import CALLS, Role


class Events:
    """An observer that records event names."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def event(self, name: str, /, **fields: object) -> None:
        self.names.append(name)


class Keyed:
    """A file of keys, the access by it, and a manual clock."""

    def __init__(self, folder: Path) -> None:
        self.path, self.clock, self.events = folder / "keys.json", FakeClock(), Events()
        self.texts: dict[str, str] = {}
        self._kept: dict[str, keys.ApiKey] = {}

    def add(self, name: str, *roles: Role, namespaces: tuple[str, ...] = ("mail",)) -> str:
        self._kept[name], self.texts[name] = keys.made(name, roles, namespaces, 0)
        keys.write(self.path, self._kept.values())
        return self.texts[name]

    def revoke(self, name: str) -> None:
        del self._kept[name]
        keys.write(self.path, self._kept.values())

    def open(self) -> Access:
        return Access(self.path, self.clock, self.events)


@pytest.fixture
def keyed(tmp_path: Path) -> Keyed:
    return Keyed(tmp_path)


def refusal(found: Access, call: str, namespace: str | None, credential: str | None) -> OncegateError | None:
    try:
        found.permit(call, namespace, credential)
    except OncegateError as error:
        return error
    return None


def test_a_key_is_taken_and_the_file_holds_no_secret(keyed: Keyed) -> None:
    text = keyed.add("loader", Role.WRITE)
    principal = keyed.open().permit("claimIds", "mail", text)
    assert principal is not None
    assert principal.name == "loader"
    assert text.rpartition("_")[2] not in keyed.path.read_text()
    assert stat.S_IMODE(os.stat(keyed.path).st_mode) == 0o600


@pytest.mark.parametrize("change", [lambda text: text[:-1], lambda text: text[:-1] + "0g"[text[-1] == "0"]])
def test_no_text_but_the_key_itself_is_taken(keyed: Keyed, change: Callable[[str], str]) -> None:
    text = keyed.add("loader", Role.WRITE)
    opened = keyed.open()
    for wrong in (change(text), "", "og_", text.upper(), "og_000000000000_" + text.rpartition("_")[2], None):
        assert isinstance(refusal(opened, "claimIds", "mail", wrong), Unauthenticated)
        assert isinstance(refusal(opened, "claimIds", "mail", wrong), Unauthenticated)
    assert refusal(opened, "claimIds", "mail", text) is None


def test_a_wrong_secret_under_a_known_id_is_refused_also_after_the_right_one(keyed: Keyed) -> None:
    text = keyed.add("loader", Role.WRITE)
    opened = keyed.open()
    assert refusal(opened, "claimIds", "mail", text) is None
    wrong = text[:-64] + "0" * 64
    assert isinstance(refusal(opened, "claimIds", "mail", wrong), Unauthenticated)
    assert refusal(opened, "claimIds", "mail", text) is None


def test_a_key_is_checked_by_scrypt_once(keyed: Keyed, monkeypatch: pytest.MonkeyPatch) -> None:
    text = keyed.add("loader", Role.WRITE)
    opened, checks = keyed.open(), []
    right = keys.ApiKey.fits
    monkeypatch.setattr(keys.ApiKey, "fits", lambda key, secret: checks.append(key.id) or right(key, secret))
    for _ in range(100):
        assert refusal(opened, "claimIds", "mail", text) is None
    assert len(checks) == 1


def test_remembered_credentials_are_bounded(keyed: Keyed, monkeypatch: pytest.MonkeyPatch) -> None:
    text = keyed.add("loader", Role.WRITE)
    monkeypatch.setattr(access, "REMEMBERED_MAX", 4)
    opened = keyed.open()
    for number in range(50):
        refusal(opened, "claimIds", "mail", f"wrong {number}")
        assert refusal(opened, "claimIds", "mail", text) is None
    assert opened.remembered <= 4


def test_a_role_includes_no_other(keyed: Keyed) -> None:
    one_of_each = {"claimIds": Role.WRITE, "ackProducers": Role.ACK, "fetchRecords": Role.READ}
    one_of_each |= {"deleteNamespace": Role.ADMIN, "getMetrics": Role.METRICS}
    texts = {role: keyed.add(role.value, role, namespaces=("*",)) for role in Role}
    opened = keyed.open()
    for call, needed in one_of_each.items():
        for role, text in texts.items():
            allowed = refusal(opened, call, "mail", text) is None
            assert allowed == (role is needed), (call, role)


def test_a_namespace_that_is_not_named_is_refused_whether_or_not_it_is_there(keyed: Keyed) -> None:
    text = keyed.add("loader", *Role)
    opened = keyed.open()
    for call, right in CALLS.items():
        if not right.public and right.roles and not right.everywhere:
            message = refusal(opened, call, "news", text)
            assert isinstance(message, Forbidden)
            assert refusal(opened, call, "mail", text) is None


def test_requests_about_all_namespaces_need_a_key_for_all(keyed: Keyed) -> None:
    one, all_ = keyed.add("one", Role.METRICS), keyed.add("all", Role.METRICS, namespaces=("*",))
    opened = keyed.open()
    assert isinstance(refusal(opened, "getMetrics", None, one), Forbidden)
    assert refusal(opened, "getMetrics", None, all_) is None


def test_a_call_without_a_row_is_open_to_no_role(keyed: Keyed) -> None:
    text = keyed.add("loader", *Role, namespaces=("*",))
    with pytest.raises(KeyError):
        keyed.open().permit("aNewCall", "mail", text)


def test_a_revoked_key_is_refused_and_a_new_one_taken_a_second_later_without_a_restart(keyed: Keyed) -> None:
    old = keyed.add("old", Role.WRITE)
    opened = keyed.open()
    assert refusal(opened, "claimIds", "mail", old) is None
    new = keyed.add("new", Role.WRITE)
    keyed.revoke("old")
    keyed.clock.advance(access.LOOK_EACH_MS)
    assert isinstance(refusal(opened, "claimIds", "mail", old), Unauthenticated)
    assert refusal(opened, "claimIds", "mail", new) is None
    assert keyed.events.names == ["keys_read"]


def test_a_key_that_is_revoked_while_the_file_is_read_is_refused_a_second_later(
    keyed: Keyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that was checked differs from the file that is there when the reading ends."""
    stays, leaked = keyed.add("stays", Role.WRITE), keyed.add("leaked", Role.WRITE)
    opened, read = keyed.open(), keys.read

    def revoked_meanwhile(path: Path) -> Any:
        monkeypatch.setattr(access.keys, "read", read)
        there = read(path)
        keyed.revoke("leaked")
        return there

    keyed.add("another", Role.WRITE)
    monkeypatch.setattr(access.keys, "read", revoked_meanwhile)
    keyed.clock.advance(access.LOOK_EACH_MS)
    assert refusal(opened, "claimIds", "mail", stays) is None
    keyed.clock.advance(access.LOOK_EACH_MS)
    assert isinstance(refusal(opened, "claimIds", "mail", leaked), Unauthenticated)
    assert refusal(opened, "claimIds", "mail", stays) is None


def test_a_key_that_is_revoked_while_the_first_reading_is_under_way_is_refused_a_second_later(
    keyed: Keyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaked, read = keyed.add("leaked", Role.WRITE), keys.read

    def revoked_meanwhile(path: Path) -> Any:
        there = read(path)
        keyed.revoke("leaked")
        return there

    with monkeypatch.context() as patch:
        patch.setattr(access.keys, "read", revoked_meanwhile)
        opened = keyed.open()
    keyed.clock.advance(access.LOOK_EACH_MS)
    assert isinstance(refusal(opened, "claimIds", "mail", leaked), Unauthenticated)


def test_a_file_that_becomes_unreadable_changes_nothing_and_is_logged_once(keyed: Keyed) -> None:
    text = keyed.add("loader", Role.WRITE)
    opened = keyed.open()
    keyed.path.write_text("{")
    for _ in range(3):
        keyed.clock.advance(access.LOOK_EACH_MS)
        assert refusal(opened, "claimIds", "mail", text) is None
    assert keyed.events.names == ["keys_unreadable"]


BAD = {
    "no JSON": "{",
    "no keys": "{}",
    "an unknown member": '{"keys": [], "users": []}',
    "a role that there is not": '{"keys": [{"id": "a", "name": "a", "roles": ["root"], "namespaces": ["*"], '
    '"made_ms": 0, "salt": "00", "scrypt": "00"}]}',
    "a cost that takes all memory": '{"keys": [{"id": "a", "name": "a", "roles": [], "namespaces": [], '
    '"made_ms": 0, "salt": "00", "scrypt": "00", "n": 1073741824}]}',
    "a salt that is no hex": '{"keys": [{"id": "a", "name": "a", "roles": [], "namespaces": [], '
    '"made_ms": 0, "salt": "x", "scrypt": "00"}]}',
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_file_that_cannot_be_used_is_refused_at_the_start(keyed: Keyed, text: str) -> None:
    keyed.path.write_text(text)
    with pytest.raises(keys.KeysUnreadable, match=r"keys\.json"):
        keyed.open()


def test_a_key_whose_check_takes_too_much_memory_is_named_before_it_is_tried(keyed: Keyed) -> None:
    keyed.path.write_text(BAD["a cost that takes all memory"])
    with pytest.raises(keys.KeysUnreadable, match="key a needs more than 64 MiB to check"):
        keyed.open()


def test_a_file_that_is_not_there_is_refused_with_the_verb_that_makes_it(keyed: Keyed) -> None:
    with pytest.raises(keys.KeysUnreadable, match="oncegate keys add"):
        keyed.open()


def test_a_file_of_many_keys_is_read_with_one_scrypt_for_all_that_are_made_alike(
    keyed: Keyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        keyed.add(f"loader {number}", Role.WRITE)
    tried, scrypt = [], hashlib.scrypt

    def counted(*given: Any, **named: Any) -> bytes:
        tried.append(named["n"])
        return scrypt(*given, **named)

    monkeypatch.setattr(hashlib, "scrypt", counted)
    assert len(keys.read(keyed.path)) == 20
    assert tried == [keys.SCRYPT_N]


@pytest.mark.parametrize(
    ("authorization", "credential"),
    [
        ("Bearer og_1", "og_1"),
        ("bearer  og_1 ", "og_1"),
        ("Basic og_1", None),
        ("og_1", None),
        ("Bearer", None),
        (None, None),
    ],
)
def test_a_credential_is_the_text_after_bearer(authorization: str | None, credential: str | None) -> None:
    assert keys.bearer(authorization) == credential


def test_public_calls_need_no_key_and_those_of_the_gateway_one_of_all_namespaces(keyed: Keyed) -> None:
    of_one = keyed.add("one", Role.ADMIN, Role.METRICS)
    of_all = keyed.add("all", Role.ADMIN, Role.METRICS, namespaces=("*",))
    opened = keyed.open()
    for call in ("getDocument", "liveProbe", "readyProbe"):
        assert refusal(opened, call, None, None) is None
    for call in ("getGateway", "drainGateway", "getMetrics"):
        assert isinstance(refusal(opened, call, None, of_one), Forbidden)
        assert refusal(opened, call, None, of_all) is None
