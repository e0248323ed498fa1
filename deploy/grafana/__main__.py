"""Writes the dashboards as Grafana's JSON; with `--check` lists the stale ones and writes nothing.

python -m deploy.grafana [--check]
"""

import sys
from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from deploy.grafana.capacity import capacity
from deploy.grafana.duplicates import duplicates
from deploy.grafana.jobs import jobs
from deploy.grafana.ledger import ledger

FOLDER = Path(__file__).parent / "dashboards"
DASHBOARDS = {"duplicates.json": duplicates, "ledger.json": ledger, "capacity.json": capacity, "jobs.json": jobs}


def text(dashboard: Dashboard) -> str:
    """Encodes a dashboard as committed, with numbered panels: Grafana rejects duplicate numbers.

    Removes `auto` of variables, which the library adds to each and its types do not have.
    """
    built = dashboard.build()
    for number, panel in enumerate(built.panels or (), 1):
        panel.id_val = number
    for variable in built.templating.list_val or ():
        variable.auto = variable.auto_count = variable.auto_min = None
    return str(JSONEncoder(sort_keys=True, indent=1).encode(built)) + "\n"


def stale() -> dict[str, str]:
    """Returns the dashboards that differ from the committed ones, as name and text."""
    made = {name: text(make()) for name, make in DASHBOARDS.items()}
    return {
        name: new for name, new in made.items() if not (FOLDER / name).is_file() or (FOLDER / name).read_text() != new
    }


def main() -> int:
    """Writes the stale dashboards, or with `--check` lists them; returns the exit status."""
    names = stale()
    if "--check" in sys.argv[1:]:
        sys.stdout.writelines(f"deploy/grafana/dashboards/{name} is stale: make generate\n" for name in names)
        return 1 if names else 0
    FOLDER.mkdir(exist_ok=True)
    for name, new in names.items():
        (FOLDER / name).write_text(new)
        sys.stdout.write(f"wrote deploy/grafana/dashboards/{name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
