"""Stores the sorted runs of each shard's LSM index, on the local machine for every kind of ledger."""

from pathlib import Path

from oncegate.ledgers import parse_url
from oncegate.ports import RunFolders
from oncegate.runs.local import LocalRunFolders, MemoryRunFolders


def run_folders(ledger_url: str) -> RunFolders:
    """Returns the LSM run folders for the ledgers at a URL: in the data folder, or in memory if there is none.

    Raises NotFound for an unknown scheme, and BadRequest if the rest of the URL is wrong.
    """
    scheme, location = parse_url(ledger_url)
    folder = Path(location) if scheme == "log" else None
    if scheme == "kafka":
        # Imported here, since its client is an extra.
        from oncegate.ledgers.kafka.address import parse_address

        folder = parse_address(location).runs_folder
    if scheme in ("redis", "rediss"):
        from oncegate.ledgers.redis.address import parse_address as parse_redis_address

        folder = parse_redis_address(location).runs_folder
    return MemoryRunFolders() if folder is None else LocalRunFolders(folder)


__all__ = ["LocalRunFolders", "MemoryRunFolders", "run_folders"]
