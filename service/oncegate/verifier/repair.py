"""Sends missing input rows to the gateway as ordinary produce requests, so that the ledger decides about each id.

A row that the ledger knows as written is not written again, even if the output lacks it; `refused` counts those. After
an interruption the same rows are sent with the same token and call.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from oncegate.arraytypes import U8
from oncegate.core.verdicts import VERDICT_MASK, Flag, Verdict
from oncegate.verifier.findings import Findings
from oncegate.verifier.kinds import FindingKind
from oncegate.verifier.question import VerifyQuestion
from oncegate.verifier.sources.gateway import GatewayClient
from oncegate.verifier.sources.inputs import Input
from oncegate.verifier.state import RunState, save

# Size in Arrow: half of a request body's default limit.
PIECE_BYTES = 16 << 20
WRITTEN, REFUSED, HELD = "written", "refused", "held"
_LACKING = (FindingKind.MISSING, FindingKind.NOT_WRITTEN)


def repair(
    folder: Path,
    state: RunState,
    question: VerifyQuestion,
    source: Input,
    gateway: GatewayClient,
    findings: Findings,
    progress: Callable[[str, int, int | None], None],
) -> dict[str, int]:
    """Produces the input rows that the output lacks. Returns the numbers of rows written, refused and held.

    Raises the gateway's errors. Progress is saved, and the same command resumes.
    """
    for row, table in source.batches(state.repair_row):
        at = np.flatnonzero(np.isin(findings.kinds(row, len(table)), _LACKING))
        for piece in pieces(table.take(at)):
            columns = list(question.columns)
            verdicts = gateway.produce(question.topic, piece, columns, question.id_set, state.token, state.repair_call)
            state.repair_call += 1
            for name, count in _counted(verdicts).items():
                state.repaired[name] = state.repaired.get(name, 0) + count
        state.repair_row = row + len(table)
        # A batch is repeated entirely or not at all, so its calls keep their numbers.
        save(folder, state)
        progress("repairing", state.repair_row, state.input_rows)
    return {name: state.repaired.get(name, 0) for name in (WRITTEN, REFUSED, HELD)}


def pieces(table: pa.Table) -> Iterator[pa.Table]:
    """Yields request-sized slices; the same rows are always divided in the same way."""
    rows = max(1, len(table) * PIECE_BYTES // max(table.nbytes, 1))
    for start in range(0, len(table), rows):
        yield table.slice(start, rows)


def _counted(verdicts: U8) -> dict[str, int]:
    """Counts the verdicts. DUPLICATE with `own`: this run wrote it before it was interrupted."""
    kinds = verdicts & VERDICT_MASK
    written = (kinds == Verdict.GRANTED) | ((kinds == Verdict.DUPLICATE) & (verdicts & Flag.OWN != 0))
    refused = (kinds == Verdict.DUPLICATE) & ~written
    return {
        WRITTEN: int(written.sum()),
        REFUSED: int(refused.sum()),
        HELD: len(verdicts) - int(written.sum()) - int(refused.sum()),
    }
