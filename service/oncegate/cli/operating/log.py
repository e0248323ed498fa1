"""Defines the verb `oncegate log`: what operators did, who it was and why."""

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from oncegate.cli.explain import AsJsonOption, NamespaceOption, when
from oncegate.cli.refusals import refusing
from oncegate.cli.running.requests import CaOption, CertificateOption, UrlOption, answer_about
from oncegate.cli.running.tables import table_of

CountOption = Annotated[int, typer.Option("--count", min=1, max=10_000, help="How many, the newest first.")]
# As many as the gateway lists in one answer.
PAGE = 1_000


def log(
    count: CountOption = 100,
    url: UrlOption = "http://127.0.0.1:8080",
    namespace: NamespaceOption = "default",
    as_json: AsJsonOption = False,
    ca: CaOption = None,
    certificate: CertificateOption = None,
) -> None:
    """Show what operators did in a namespace, the newest first: who, when, what, and why. Drains are in `default`.

    With --json, one object a line. Example: oncegate log --namespace orders --count 20
    """
    with refusing():
        actions = _actions(count, url, namespace, ca, certificate)
        if as_json:
            sys.stdout.write("".join(json.dumps(action) + "\n" for action in actions))
            return
        table = table_of("when", "who", "did", "to", "changed", "why", title=f"what operators did in {namespace}")
        for entry in actions:
            shown = entry["who"], entry["action"], entry["subject"], str(entry["changed"]), entry["why"]
            table.add_row(when(entry["wall_ms"]), *map(escape, shown))
        Console().print(table)


def _actions(count: int, url: str, namespace: str, ca: Any, certificate: Any) -> list[dict[str, Any]]:
    actions: list[dict[str, Any]] = []
    following = None
    while len(actions) < count:
        page = f"audit?limit={min(PAGE, count - len(actions))}" + (f"&before={following}" if following else "")
        answer = json.loads(answer_about(url, namespace, page, None, ca, certificate))
        actions, following = actions + answer["actions"], answer["next"]
        if following is None:
            break
    return actions
