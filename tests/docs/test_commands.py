"""Commands on the pages exist: verbs with their flags, make targets, scripts."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer
import yaml

from oncegate.cli import app
from oncegate.settings import ProcessSettings, SemanticSettings
from tests.docs.pages import PAGES, ROOT, Page, named

TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
SETTINGS = {f"ONCEGATE_{name.upper()}" for half in (SemanticSettings, ProcessSettings) for name in half.model_fields}
# Variables of `make soak`, and the address for `oncegate explain`.
OTHERS = {
    "ONCEGATE_API_KEY",
    "ONCEGATE_CA",
    "ONCEGATE_CERTIFICATE",
    "ONCEGATE_REGISTRY_AUTH",
    "ONCEGATE_SEED",
    "ONCEGATE_URL",
    "ONCEGATE_EXAMPLES",
    "ONCEGATE_TEST_SEED",
}


def commands(page: Page, program: str) -> Iterator[list[str]]:
    """Yields the words of each call of the program on a page, without shell comments."""
    lines = [line for block in page.blocks("", "bash") for line in block.splitlines()]
    for text in [*page.code(), *lines]:
        if text.startswith(f"{program} "):
            yield shlex.split(text, comments=True)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_verb_takes_the_flags_that_a_page_gives_it(page: Page) -> None:
    for words in commands(page, "oncegate"):
        command: Any = typer.main.get_command(app)
        rest = words[1:]
        while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
            assert rest[0] in command.commands, " ".join(words)
            command = command.commands[rest.pop(0)]
        known = {opt for parameter in command.params for opt in parameter.opts} | {"--help"}
        assert [flag for flag in rest if flag.startswith("-") and flag not in known] == [], " ".join(words)


def test_a_flag_that_is_not_there_would_be_found() -> None:
    with pytest.raises(AssertionError):
        test_every_verb_takes_the_flags_that_a_page_gives_it(Written("`oncegate serve --no-such-flag`"))
    with pytest.raises(AssertionError):
        test_every_verb_takes_the_flags_that_a_page_gives_it(Written("`oncegate nosuchverb`"))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_target_of_make_exists(page: Page) -> None:
    assert {words[1] for words in commands(page, "make")} <= TARGETS


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_script_and_module_that_is_run_exists(page: Page) -> None:
    for words in commands(page, "python"):
        place = words[2].replace(".", "/") if words[1] == "-m" else words[1]
        found = [ROOT / place, ROOT / f"{place}.py", ROOT / "service" / place]
        assert any(path.exists() for path in found), " ".join(words)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_variable_is_a_setting(page: Page) -> None:
    assert set(re.findall(r"\bONCEGATE_[A-Z_]*[A-Z]\b", page.text)) <= SETTINGS | OTHERS


def test_the_hooks_before_a_commit_run_what_make_check_runs() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in hooks] == ["local"], "nothing is fetched"
    checked = (ROOT / "Makefile").read_text().partition("\ncheck:")[2].partition("\n\n")[0]
    for hook in hooks[0]["hooks"]:
        assert hook["language"] == "system"
        assert hook["entry"].replace(".venv/bin/python", "$(PY)").replace(".venv/bin/", "") in checked, hook["entry"]


class Written(Page):
    """A page of one line, for the tests of these tests."""

    def __init__(self, text: str) -> None:
        super().__init__(ROOT / "README.md")
        self.__dict__["text"] = text
