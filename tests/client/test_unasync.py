"""The blocking client equals the converted asyncio one, and no substitution rule is outdated."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts/unasync.py"


@pytest.fixture
def unasync() -> ModuleType:
    spec = importlib.util.spec_from_file_location("unasync", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_blocking_client_equals_the_converted_asyncio_one() -> None:
    subprocess.run([sys.executable, str(SCRIPT), "--check"], cwd=ROOT, check=True)


def test_a_rule_that_is_never_used_is_an_error(unasync: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unasync, "TOKENS", (*unasync.TOKENS, (r"\bno_such_word\b", "")))
    with pytest.raises(unasync.UnusedRule, match="no_such_word"):
        unasync.generated()
    assert unasync.main() == 1


def test_a_stale_file_is_named(
    unasync: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(unasync, "HEADER", "# another first line, of {}\n")
    monkeypatch.setattr(sys, "argv", ["unasync.py", "--check"])
    assert unasync.main() == 1
    assert "sync/gateway.py is stale: make generate" in capsys.readouterr().out


def test_a_line_may_define_its_version_without_asyncio(unasync: ModuleType) -> None:
    source = "class AsyncOne:\n    a = 1  # sync: -\n    b = await two()  # sync: b = three()\n    c = await four()\n"
    assert unasync.without_asyncio(source, set()) == "class One:\n    b = three()\n    c = four()\n"
