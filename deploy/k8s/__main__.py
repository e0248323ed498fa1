"""Generates the chart's files that derive from its values.yaml and the gateway's settings.

python -m deploy.k8s [--check]    values.schema.json, and the table in README.md; `--check` lists stale files python -m
deploy.k8s --tools      builds and fetches, once, the tools of `make k8s`, into the user's cache python -m deploy.k8s
--servers    also etcd and the servers of Kubernetes, for `make k8s-cluster` python -m deploy.k8s --render
tests/golden/chart, with Helm: the output for each file of helm/oncegate/ci
"""

import json
import re
import subprocess
import sys
from pathlib import Path

from deploy.k8s import schema, schemas, servers
from deploy.k8s.render import is_rendered, render_all
from deploy.k8s.tools import TOOLS, ToolMissing, build
from deploy.k8s.values import CHART, values

_TABLE = re.compile(r"(<!-- drawn: values -->\n).*(<!-- end -->)", re.DOTALL)


def table() -> str:
    """Returns the table of values with their defaults and comments."""
    rows = ["|value|default|what it is|", "|---|---|---|"]
    for value in values():
        shown = "" if value.is_group else f"`{json.dumps(value.default)}`"
        rows.append(f"|`{value.path}`|{shown}|{value.comment}|")
    return "\n".join(rows) + "\n"


def readme() -> str:
    """Returns the chart's README.md with an updated table."""
    return _TABLE.sub(lambda match: f"{match[1]}{table()}{match[2]}", (CHART / "README.md").read_text())


def stale() -> dict[Path, str]:
    """Returns the files that differ from the committed ones, with their text."""
    made = {CHART / "values.schema.json": schema.text(), CHART / "README.md": readme()}
    return {path: new for path, new in made.items() if not path.is_file() or path.read_text() != new}


def have_tools(and_servers: bool) -> int:
    """Builds and fetches missing tools; returns the exit status."""
    try:
        for wanted in TOOLS:
            build(wanted)
        schemas.fetch()
        for server in servers.SERVERS if and_servers else ():
            servers.build(server)
    except (ToolMissing, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def main() -> int:
    """Writes stale files, or with `--check` lists them; returns the exit status."""
    if {"--tools", "--servers"} & {*sys.argv[1:]}:
        return have_tools("--servers" in sys.argv[1:])
    if "--render" in sys.argv[1:]:
        render_all()
        return 0
    if "--check" in sys.argv[1:]:
        return checked()
    for path, new in stale().items():
        path.write_text(new)
        sys.stdout.write(f"wrote {path.relative_to(CHART.parents[1])}\n")
    return 0


def checked() -> int:
    """Lists stale files and the command that updates them; returns the exit status."""
    lines = [f"{path.relative_to(CHART.parents[1])} is stale: make generate\n" for path in stale()]
    if not is_rendered():
        lines.append("tests/golden/chart is stale: python -m deploy.k8s --render\n")
    sys.stdout.write("".join(lines))
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
