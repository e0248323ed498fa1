"""Verifies the files of an embedded ledger, offline or beside the gateway that owns it."""

import asyncio
import sys
from pathlib import Path

import msgspec

from oncegate.cli.progress import counted
from oncegate.cli.refusals import going_past, refusing
from oncegate.core.errors import OncegateError
from oncegate.ledgers import log
from oncegate.ledgers.log.admin.verify import Verified, VerifiedLedger


def verify_ledger(data: Path, witness: str | None, namespace: str | None, as_json: bool) -> None:
    """Prints a line for each ledger of the data folder, or of one namespace; status 1 where one of them is damaged."""
    with refusing(), counted("verifying", data, times=2) as disk:
        try:
            results = log.verify(str(data), witness, disk, _rebuild, namespace)
            going_past(results, lambda verified: (_line(verified), _members(verified)), as_json)
        except OncegateError as error:
            if as_json:
                sys.stdout.write(msgspec.json.encode({"ok": False, "detail": error.detail}).decode() + "\n")
            raise


def _rebuild(ledger: VerifiedLedger) -> None:
    """LedgerDamaged, KeyMismatch unless the entries make an index."""
    # The compiler takes a second to import; no other verb needs it.
    from oncegate.engine.commit.marks import Marks
    from oncegate.engine.recovery.replay import replay
    from oncegate.hashing.keys import key_check
    from oncegate.index.shard import ShardIndex

    marks, check = Marks(ledger.mark.ledger), key_check(ledger.key)
    asyncio.run(replay(ShardIndex(), ledger.batches(), marks, check, 0))


def _line(verified: Verified) -> str:
    compacted = f", compacted up to {verified.compacted}" if verified.compacted else ""
    return (
        f"{verified.namespace}: whole up to position {verified.position}{compacted}; "
        f"{verified.segments} segments, {verified.ranges} ranges of {verified.range_bytes} bytes; "
        f"ledger {verified.ledger.hex()}"
    )


def _members(verified: Verified) -> dict[str, object]:
    return {
        "ok": True,
        "namespace": verified.namespace,
        "ledger": verified.ledger.hex(),
        "position": verified.position,
        "collected": verified.compacted,
        "segments": verified.segments,
        "ranges": verified.ranges,
        "range_bytes": verified.range_bytes,
    }
