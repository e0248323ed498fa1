"""The URL of ledgers on Kafka: each part is used or refused by name, before any broker is asked."""

from pathlib import Path

import pytest

from oncegate.core.errors import BadRequest
from oncegate.ledgers.kafka.address import parse_address
from oncegate.ledgers.keys import Keys, read_keys
from oncegate.runs import LocalRunFolders, MemoryRunFolders, run_folders


def test_a_url_names_brokers_prefix_and_how_topics_are_kept(tmp_path: Path) -> None:
    (key := tmp_path / "master.key").write_bytes(bytes(32))
    found = parse_address(
        f"//a:9092,b.example:9093,[::1]:9094/oncegate?master_key={key}&replication=5&send_ms=1000&compression=lz4"
    )
    assert found.settings["bootstrap_servers"] == ["a:9092", "b.example:9093", "[::1]:9094"]
    assert (found.prefix, found.replication, found.min_insync, found.master_key) == ("oncegate", 5, 2, key)
    assert (found.deadlines.send_ms, found.deadlines.commit_ms) == (1_000, 10_000)
    assert found.deadlines.transaction_ms > 11_000
    assert parse_address("//a:9092/p?bare_key=yes&transaction_ms=300000").deadlines.sending_ms == 290_000
    assert found.compression == "lz4"
    assert str(key) not in found.shown


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("localhost:9092/p?bare_key=yes", "names no brokers"),
        ("//localhost/p?bare_key=yes", "names no brokers"),
        ("//user:secret@localhost:9092/p?bare_key=yes", r"kafka:\*\*\*@localhost:9092/p names no brokers"),
        ("//localhost:9092?bare_key=yes", "names no brokers"),
        ("//localhost:9092/?bare_key=yes", "prefix ''"),
        ("//localhost:9092/a.b?bare_key=yes", "prefix 'a.b'"),
        ("//localhost:9092/p", "openssl rand -hex 32"),
        ("//localhost:9092/p?bare_key=no", "no master_key"),
        ("//localhost:9092/p?bare_key=true", "neither yes nor no"),
        ("//localhost:9092/p?bare_key=yes&bare_key=yes", "twice"),
        ("//localhost:9092/p?bare_key=yes&replicas=3", "replicas, which is none of replication, "),
        ("//localhost:9092/p?bare_key=yes&replication=0", "not a whole number"),
        ("//localhost:9092/p?bare_key=yes&send_ms=1e3", "not a whole number"),
        ("//localhost:9092/p?bare_key=yes&replication=1", "nothing could be written"),
        (
            "//localhost:9092/p?bare_key=yes&compression=gzip",
            "compression=gzip of the ledger's URL is none of none, lz4, zstd",
        ),
        (
            "//localhost:9092/p?bare_key=yes&send_ms=5000&transaction_ms=15000",
            r"transaction_ms=15000 .* not longer than send_ms and commit_ms together \(15000\)",
        ),
        ("//localhost:9092/p?bare_key=yes&compression=", "is none of none, lz4, zstd"),
        ("//localhost:9092/p?bare_key=yes&compression=zstd&compression=lz4", "compression twice"),
        ("//localhost:9092/p?master_key=/nowhere", "is no file"),
        ("//localhost:9092/p?bare_key=yes&security_protocol=TLS", "security_protocol=TLS is none of"),
        ("//localhost:9092/p?bare_key=yes&sasl_password=secret", "no password in a URL"),
        ("//localhost:9092/p?bare_key=yes&ssl_ca=/x", "did you mean ssl_cafile"),
    ],
)
def test_errors_in_a_url_are_reported(place: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        parse_address(place)


def test_runs_are_in_a_folder_of_the_prefix_or_in_memory(tmp_path: Path) -> None:
    (file := tmp_path / "file").touch()
    url = "kafka://localhost:9092/p?bare_key=yes"
    assert isinstance(run_folders(url), MemoryRunFolders)
    assert isinstance(run_folders(f"{url}&runs={tmp_path}"), LocalRunFolders)
    assert parse_address(f"//localhost:9092/p?bare_key=yes&runs={tmp_path}").runs_folder == tmp_path / "p"
    with pytest.raises(BadRequest, match="is no folder"):
        run_folders(f"{url}&runs={file}")


def test_connection_settings_are_in_the_url_and_the_password_in_a_file(tmp_path: Path) -> None:
    (password := tmp_path / "password").write_text("secret\n")
    asked = "security_protocol=SASL_PLAINTEXT&sasl_mechanism=PLAIN&sasl_username=oncegate"
    found = parse_address(f"//localhost:9092/p?bare_key=yes&{asked}&sasl_password_file={password}")
    assert found.settings["sasl_plain_password"] == "secret"
    assert "secret" not in repr(found)


def test_keys_are_wrapped_or_bare_and_never_both(tmp_path: Path) -> None:
    (key := tmp_path / "master.key").write_bytes(bytes(32))
    for more, words in (("bare_key=yes", "both"), (f"old_master_key={key}", None)):
        place = f"//localhost:9092/p?master_key={key}&{more}"
        if words is None:
            assert parse_address(place).old_master_key == key
            continue
        with pytest.raises(BadRequest, match=words):
            parse_address(place)
    with pytest.raises(BadRequest, match="without master_key"):
        parse_address(f"//localhost:9092/p?old_master_key={key}")


@pytest.mark.parametrize("data", [b"", b"short", b"x" * 31, b"g" * 64, b"0" * 63])
def test_a_file_that_holds_no_master_key_is_refused(tmp_path: Path, data: bytes) -> None:
    (file := tmp_path / "master.key").write_bytes(data)
    with pytest.raises(BadRequest, match="neither 32 bytes nor 64 hexadecimal digits"):
        read_keys(file)


def test_a_wrapped_key_is_the_published_example_of_the_rfc() -> None:
    """RFC 3394, 4.6: 256 bits of key data with a 256-bit key."""
    master = bytes(range(32))
    key = bytes.fromhex("00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F")
    wrapped = bytes.fromhex("28C9F404C4B810F4CBCCB35CFB87F8263F5786E2D80ED326CBC7F0E71A99F43BFB988B9B7A02DD21")
    assert Keys(master).wrap(key) == b"\1" + wrapped
    assert Keys(bytes(32), master).unwrap(b"\1" + wrapped) == key
    assert Keys().wrap(key) == b"\0" + key
