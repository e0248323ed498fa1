"""Keeps each shard's sorted runs on the local machine, whatever its ledger is made of."""

from pathlib import Path

from oncegate.ledgers import parse_url
from oncegate.ports import RunFolders
from oncegate.runs.local import LocalRunFolders
from oncegate.runs.memory import MemoryRunFolders


def run_folders(ledger_url: str) -> RunFolders:
    """Returns where the shards of these ledgers keep their runs: in the data folder, or in memory without one.

    NotFound: the URL's scheme is unknown.
    """
    scheme, place = parse_url(ledger_url)
    return LocalRunFolders(Path(place)) if scheme == "log" else MemoryRunFolders()


__all__ = ["LocalRunFolders", "MemoryRunFolders", "run_folders"]
