"""URLs of ledgers on Redis: misspelt or contradictory ones are refused in one line that shows no password."""

from pathlib import Path

import pytest

from oncegate.core.errors import BadRequest
from oncegate.ledgers.redis.address import parse_address


def test_an_address_has_the_location_of_ledgers_and_their_options() -> None:
    address = parse_address("//redis.example:6379/ids?bare_key=yes&wait_replicas=1&db=3")
    assert (address.host, address.port, address.prefix, address.db) == ("redis.example", 6379, "ids", 3)
    assert (address.bare_key, address.wait_replicas, address.shown) == (True, 1, "redis://redis.example:6379/ids")
    assert parse_address("//[::1]:1/ids?bare_key=yes", tls=True).shown == "rediss://[::1]:1/ids"


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("//localhost/ids?bare_key=yes", "names no server and prefix"),
        ("//user:secret@localhost:6379/ids?bare_key=yes", "names no server and prefix"),
        ("//localhost:6379?bare_key=yes", "names no server and prefix"),
        ("//localhost:6379/0?bare_key=yes", "option db"),
        ("//localhost:6379/ids", "openssl rand"),
        ("//localhost:6379/ids?bare_key=yes&bare_key=yes", "twice"),
        ("//localhost:6379/ids?bare_key=yes&wait=1", "wait, which is none of"),
        ("//localhost:6379/ids?bare_key=yes&outputs=kafka", "none of streams, none"),
        ("//localhost:6379/ids?bare_key=yes&reply_ms=0", "whole number from 1"),
        ("//localhost:6379/ids?bare_key=yes&user=u", "user without password_file"),
        ("//localhost:6379/ids?bare_key=yes&ssl_cafile=/dev/null", "no file"),
    ],
)
def test_an_address_that_cannot_be_meant_is_refused_by_name(place: str, says: str) -> None:
    with pytest.raises(BadRequest, match=says) as refused:
        parse_address(place)
    assert "secret" not in refused.value.detail


def test_options_of_tls_do_nothing_without_it(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")
    place = f"//localhost:6379/ids?bare_key=yes&ssl_cafile={tmp_path / 'ca.pem'}"
    assert parse_address(place, tls=True).ssl_cafile == tmp_path / "ca.pem"
    with pytest.raises(BadRequest, match="rediss://"):
        parse_address(place)


def test_a_password_is_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret\n")
    address = parse_address(f"//localhost:6379/ids?bare_key=yes&password_file={tmp_path / 'password'}")
    assert address.password() == "secret"
    assert "secret" not in repr(address)
