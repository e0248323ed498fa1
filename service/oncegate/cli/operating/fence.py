"""Defines the verb `oncegate fence`."""

import json
import sys
import urllib.parse
from typing import Annotated

import typer

from oncegate.cli.explain import AsJsonOption, NamespaceOption
from oncegate.cli.operating.options import ReasonOption, WhoOption, note
from oncegate.cli.refusals import refusing
from oncegate.cli.running.requests import CaOption, CertificateOption, UrlOption, answer_about

ProducerArgument = Annotated[str, typer.Argument(help="The producer: an ordered partition of a source, by its name.")]


def fence(
    producer: ProducerArgument,
    reason: ReasonOption,
    who: WhoOption = None,
    url: UrlOption = "http://127.0.0.1:8080",
    namespace: NamespaceOption = "default",
    as_json: AsJsonOption = False,
    ca: CaOption = None,
    certificate: CertificateOption = None,
) -> None:
    """Shut out whoever holds a producer, its lease or not: what they ask from now on is FENCED.

    What they had claimed and not settled may be taken over. The next attempt registers at once.

    Example: oncegate fence events-3 --reason "two executors write it since the split"
    """
    with refusing():
        place = f"producers/{urllib.parse.quote(producer, safe='')}:fence"
        body = answer_about(url, namespace, place, note(reason, who), ca, certificate)
        line = f"producer {producer} is at epoch {json.loads(body)['epoch']}, which nobody holds: older ones are FENCED"
        sys.stdout.write((body if as_json else line) + "\n")
