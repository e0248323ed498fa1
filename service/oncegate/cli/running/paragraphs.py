"""Lets the paragraphs of a verb's help flow in a terminal of any width; typer itself does so with the first alone."""

import inspect
import re

import typer

# A line break that stands for a space: what comes behind it is no example, which has a line of its own.
_BREAK = re.compile(r"(?<!\n)\n(?!\n|Example: )")


def let_paragraphs_flow(app: typer.Typer) -> None:
    """Gives each verb of `app`, and of the groups in it, its docstring as help, one line a paragraph and an example."""
    for command in app.registered_commands:
        command.help = _BREAK.sub(" ", command.help or inspect.getdoc(command.callback) or "")
    for group in app.registered_groups:
        if group.typer_instance is not None:
            let_paragraphs_flow(group.typer_instance)
