"""Defines the verb `oncegate demo`, which runs the demonstration in a checkout of the project."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from oncegate.cli.refusals import refusing
from oncegate.core.errors import NotFound

OutOption = Annotated[Path | None, typer.Option(help="Where the results go; emptied first.  [default: out/demo]")]


def demo(out: OutOption = None) -> None:
    """Real data, real Spark, real faults: the same job without and with the gateway. Takes some minutes.

    Example: oncegate demo --out /tmp/demo
    """
    with refusing():
        if not Path("demo/__main__.py").is_file():
            raise NotFound("the demo is part of the project's repository: clone it, then `make demo` there")
        arguments = [] if out is None else ["--out", str(out)]
        raise typer.Exit(subprocess.run([sys.executable, "-m", "demo", *arguments], check=False).returncode)
