"""The command line, a table of verbs; imports only the module of the verb that runs."""

import inspect
import re
import sys
from collections import UserDict
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import oncegate

# Module and function of each verb, or of its group.
VERBS = {
    "serve": "serve:serve",
    "config": "serve:config",
    "doctor": "doctor.verb:doctor",
    "audit": "audit:audit",
    "explain": "explain:explain",
    "resolve": "operators:resolve",
    "release": "operators:release",
    "forget": "forget:forget",
    "replay": "replay:replay",
    "fence": "operators:fence",
    "drain": "drain:drain",
    "log": "operators:log",
    "demo": "demo:demo",
    "init": "ledger:init",
    "backup": "copies:backup",
    "restore": "copies:restore",
    "verify": "verify:verify",
    "export": "carry:export",
    "import": "carry:take_in",
    "size": "size:size",
    "ledger": "ledger:app",
    "kafka": "kafka:app",
    "keys": "keys:app",
}
# A line break that means a space: one that is not followed by an empty line or an example.
_BREAK = re.compile(r"(?<!\n)\n(?!\n|Example: )")


def let_paragraphs_flow(app: typer.Typer) -> None:
    """Gives each verb of `app` its docstring as help, one line per paragraph and example.

    Typer itself reflows only the first paragraph to the width of the terminal.
    """
    for command in app.registered_commands:
        command.help = _BREAK.sub(" ", command.help or inspect.getdoc(command.callback) or "")


class _Commands(UserDict[str, Any]):
    """Maps each verb to its command; imports the module and builds the command on first look-up."""

    def __getitem__(self, name: str) -> Any:
        module, _, function = super().__getitem__(name).partition(":")
        verb = getattr(import_module(f"oncegate.cli.{module}"), function)
        if not isinstance(verb, typer.Typer):
            function, verb = verb, typer.Typer(add_completion=False)
            verb.command(name)(function)
        let_paragraphs_flow(verb)
        command = typer.main.get_command(verb)
        command.name = name
        return command


class _Group(TyperGroup):
    """The command group of the verbs listed in VERBS."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands(VERBS)


app = typer.Typer(
    cls=_Group,
    help="A deduplicating gateway: retried writes take effect once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"oncegate {oncegate.__version__}\n")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """A deduplicating gateway: retried writes take effect once."""


__all__ = ["app"]
