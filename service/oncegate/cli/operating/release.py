"""Defines the verb `oncegate release`."""

import json
import sys
import urllib.parse
from typing import Annotated

import typer

from oncegate.cli.explain import AsJsonOption, NamespaceOption
from oncegate.cli.operating.options import ReasonOption, WhoOption, note
from oncegate.cli.refusals import refusing
from oncegate.cli.running.requests import CaOption, CertificateOption, UrlOption, answer_about

ClaimArgument = Annotated[str, typer.Argument(help="The claim, as `explain` names it.")]
GoneOption = Annotated[
    bool, typer.Option("--holder-gone", help="Its holder is dead for sure: do not wait for its lease.")
]


def release(
    claim: ClaimArgument,
    reason: ReasonOption,
    holder_gone: GoneOption = False,
    who: WhoOption = None,
    url: UrlOption = "http://127.0.0.1:8080",
    namespace: NamespaceOption = "default",
    as_json: AsJsonOption = False,
    ca: CaOption = None,
    certificate: CertificateOption = None,
) -> None:
    """Give back a claim whose holder is gone and has written none of its ids: they are free at once.

    If they were written: oncegate resolve done --claim. While its lease runs, only with --holder-gone.

    Example: oncegate release 1g5s... --holder-gone --reason "its pod was evicted before the first write"
    """
    with refusing():
        message = {"outcome": "not_done", "verb": "release", "holder_gone": holder_gone, **note(reason, who)}
        place = f"claims/{urllib.parse.quote(claim, safe='')}:resolve"
        body = answer_about(url, namespace, place, message, ca, certificate)
        count = json.loads(body)["resolved"]
        line = f"{count} ids are free" if count else "it held nothing that was left: nothing was changed"
        sys.stdout.write((body if as_json else line) + "\n")
