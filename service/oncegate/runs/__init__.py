"""Keeps each shard's sorted runs on the local machine, whatever its ledger is made of."""

from pathlib import Path

from oncegate.ledgers import parse_url
from oncegate.ports import RunFolders
from oncegate.runs.local import LocalRunFolders, MemoryRunFolders


def run_folders(ledger_url: str) -> RunFolders:
    """Returns where the shards of these ledgers keep their runs: in the data folder, or in memory without one.

    NotFound: the URL's scheme is unknown. BadRequest: the rest of it is wrong.
    """
    scheme, location = parse_url(ledger_url)
    folder = Path(location) if scheme == "log" else None
    if scheme == "kafka":
        # Its client is an extra.
        from oncegate.ledgers.kafka.address import parse_address

        folder = parse_address(location).runs_folder
    if scheme in ("redis", "rediss"):
        from oncegate.ledgers.redis.address import parse_address as parse_redis_address

        folder = parse_redis_address(location).runs_folder
    return MemoryRunFolders() if folder is None else LocalRunFolders(folder)


__all__ = ["LocalRunFolders", "MemoryRunFolders", "run_folders"]
