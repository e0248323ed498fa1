"""Defines the verb `oncegate doctor`."""

import json
import sys
from typing import Annotated, Any

import typer

from oncegate.cli.doctor.findings import Level
from oncegate.cli.options import AsJsonLinesOption, OneNamespaceOption
from oncegate.cli.refusals import refusing
from oncegate.cli.requests import CaOption, CertificateOption
from oncegate.cli.serve import taking_serve_flags

DoctorUrlOption = Annotated[
    str | None, typer.Option(envvar="ONCEGATE_URL", help="The running gateway.  [default: as the settings say]")
]


@taking_serve_flags
def doctor(
    url: DoctorUrlOption = None,
    namespace: OneNamespaceOption = None,
    as_json: AsJsonLinesOption = False,
    ca: CaOption = None,
    certificate: CertificateOption = None,
    **flags: Any,
) -> None:
    """Check an installation from end to end, with the flags and settings of `serve`, and say what is wrong.

    Python, clock, open files, ports, disk and rights, the ledger's servers, keys, certificates; of a gateway that runs
    its health and a claim, in a namespace of its own that is removed. A line each: what, why it matters, what to do.

    Status 0: nothing is wrong (there may be warnings). 1: something is.
    """
    # The checks import the ledgers, the settings and the libraries of certificates.
    from oncegate.cli.doctor.checks import findings_of

    with refusing():
        findings = []
        for finding in findings_of(flags, url, namespace, ca, certificate):
            sys.stdout.write((json.dumps(finding.members) if as_json else str(finding)) + "\n")
            sys.stdout.flush()
            findings.append(finding)
        if any(finding.level is Level.WRONG for finding in findings):
            raise typer.Exit(1)
