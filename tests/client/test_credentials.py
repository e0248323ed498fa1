"""Credentials of a program's clients: the key and its file are sent to a real gateway and shown nowhere."""

import asyncio
import io
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest

from deploy.kafka.certificates import Authority
from oncegate.app import running
from oncegate.runtime.logging import open_log
from oncegate.transports.access import keys
from oncegate.transports.access.rights import Role
from oncegate_spark import AsyncGateway, Credentials, Gateway, NamedBatches, errors
from oncegate_spark.spark.acks import AckNote
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.readers import ReadOptions
from tests.support.http_app import settings

SECRET = "og_" + "ab" * 6 + "_" + "cd" * 32
HERE = "http://127.0.0.1:1"


def claimed(url: str, credentials: Credentials, id_: str) -> int:
    with Gateway(url, credentials=credentials) as gateway, gateway.attempt() as attempt:
        found = attempt.claim([id_])
        with gateway.renewing as twin:
            twin.describe()
        attempt.complete(found)
        return len(found.granted)


async def test_both_clients_send_the_key_that_they_are_given_and_take_a_new_one_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEGATE_API_KEY", SECRET)  # wrong: the argument takes precedence
    key, text = keys.made("loader", [Role.WRITE], ["default"], 0)
    keys.write(tmp_path / "keys.json", [key])
    (file := tmp_path / "key").write_text(text + "\n")
    async with running(settings(keys=tmp_path / "keys.json"), open_log("text", io.StringIO())) as program:
        url = f"http://127.0.0.1:{program.port}"
        with pytest.raises(errors.OncegateError, match="key is unknown"):
            await asyncio.to_thread(claimed, url, Credentials(), "a")
        assert await asyncio.to_thread(claimed, url, Credentials(api_key=text), "a") == 1
        by_file = Credentials(api_key_file=str(file))
        assert await asyncio.to_thread(claimed, url, by_file, "b") == 1
        async with AsyncGateway(url, credentials=by_file) as gateway, gateway.attempt() as attempt:
            await attempt.complete(await attempt.claim(["c"]))
            assert (await gateway.renewing.describe())["namespace"] == "default"
            file.write_text(SECRET)
            with pytest.raises(errors.OncegateError, match="key is unknown"):
                await gateway.describe()
            file.unlink()
            with pytest.raises(errors.BadOption, match=r"api_key_file .*No such file.*nothing was sent"):
                await gateway.describe()
            file.write_text(text)
            assert (await gateway.describe())["namespace"] == "default"


def test_a_key_is_shown_by_no_text_and_carried_by_no_pickle(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONCEGATE_API_KEY", raising=False)
    caplog.set_level(logging.DEBUG)
    (file := tmp_path / "key").write_text(SECRET)
    by_text, by_file = Credentials(api_key=SECRET), Credentials(api_key_file=str(file))
    shown = [repr(by_text), str(by_file), repr(NamedBatches(HERE, "s", credentials=by_text)), repr(by_file.files())]
    for credentials in (by_text, by_file):
        with (
            pytest.raises(errors.OncegateError) as unreachable,
            Gateway(HERE, timeout_ms=1, credentials=credentials) as gateway,
        ):
            gateway.describe()
        with pytest.raises(errors.BadOption, match="clear text") as clear:
            Gateway("http://gateway:8080", credentials=credentials)
        shown += [str(unreachable.value), repr(unreachable.value), str(clear.value), repr(gateway)]
    with pytest.raises(TypeError, match="a key cannot be pickled") as refused:
        pickle.dumps(by_text)
    assert SECRET.encode() not in pickle.dumps(by_file)
    assert pickle.loads(pickle.dumps(by_file)) == by_file
    assert SECRET[-64:] not in "".join([*shown, str(refused.value), caplog.text])


def test_options_of_spark_name_files_and_hold_no_key(tmp_path: Path) -> None:
    (file := tmp_path / "key").write_text(SECRET)
    options = {"url": HERE, "topic": "t", "apiKeyFile": str(file)}
    for read in (Options.read(options), ReadOptions.read(options)):
        assert read.credentials.key() == (SECRET, f"api_key_file {file}")
        assert SECRET not in repr(read)
        assert SECRET.encode() not in pickle.dumps(read)


def test_an_ack_that_is_kept_knows_the_files_and_not_the_key(tmp_path: Path) -> None:
    (file := tmp_path / "key").write_text(SECRET)
    note = AckNote(HERE, "ns", "d", "t", 1, {}, True, credentials=Credentials(api_key_file=str(file)).files())
    assert str(file) in note.encode()
    assert SECRET not in note.encode()


@pytest.mark.parametrize("name", ["apiKey", "api_key", "token", "Authorization"])
def test_an_option_that_would_hold_the_key_itself_is_refused_without_it(name: str) -> None:
    for read in (Options, ReadOptions):
        with pytest.raises(errors.BadOption, match=r"apiKeyFile.*ONCEGATE_API_KEY") as refused:
            read.read({"url": HERE, "topic": "t", name.lower(): SECRET})
        assert SECRET not in str(refused.value)


def test_a_file_without_a_key_or_with_something_else_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    (empty := tmp_path / "empty").write_text("\n")
    (long := tmp_path / "long").write_bytes(b"a" * (16 << 10) + b"b")
    (lines := tmp_path / "lines").write_text(f"{SECRET}\n{SECRET}")
    for file, told in (
        (empty, "is empty"),
        (long, "is longer than"),
        (lines, "a character that no key has"),
        (tmp_path, ""),
    ):
        with pytest.raises(errors.BadOption, match=f"{told}.*nothing was sent") as refused:
            Gateway(HERE, credentials=Credentials(api_key_file=str(file)))
        assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"api_key": SECRET, "api_key_file": "f"}, "set only one"),
        ({"certificate_key": "f"}, "needs certificate"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(errors.BadOption, match=rf"{told}.*nothing was sent"):
        Credentials(**given)


def test_wrong_certificates_are_one_error_before_anything_is_sent(tmp_path: Path) -> None:
    authority = Authority()
    key, certificate = authority.signed("client")
    other_key, _ = authority.signed("other")
    for name, text in (("ca", authority.pem), ("cert", certificate), ("other", other_key), ("none", b"no PEM")):
        (tmp_path / name).write_bytes(text)
    (tmp_path / "both").write_bytes(key + certificate)
    ca, cert, other, none, both, missing = (
        str(tmp_path / name) for name in ("ca", "cert", "other", "none", "both", "missing")
    )
    for given, told in (
        ({"ca": missing}, "ca .*missing: No such file"),
        ({"ca": none}, "ca .*none: no certificate"),
        ({"ca": ca, "certificate": missing}, "certificate .*missing: No such file"),
        ({"certificate": cert, "certificate_key": other}, "certificate_key .*other: key values mismatch"),
        ({"certificate": cert}, "certificate .*cert: "),
    ):
        for client in (Gateway, AsyncGateway):
            with pytest.raises(errors.BadOption, match=rf"{told}.*nothing was sent") as refused:
                client("https://127.0.0.1:1", credentials=Credentials(**given))
            assert "\n" not in str(refused.value)
    Gateway("https://127.0.0.1:1", credentials=Credentials(ca=ca, certificate=both)).close()
    with pytest.raises(errors.BadOption, match=r"certificates are set, and http://.* does not use TLS; write https"):
        Gateway(HERE, credentials=Credentials(ca=ca))
