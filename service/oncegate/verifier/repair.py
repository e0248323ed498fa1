"""Hands the gateway what is missing, from the input: by its ordinary produce, so that the ledger decides about each id.

What the ledger knows as written it does not write again, also where the output lacks it: `refused` counts those. A
repeat after an interruption sends the same rows with the same token and call.
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

# In Arrow; half of what a body may have by default.
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
    """Produces the rows of the input that the output lacks; returns how many were written, refused and held.

    Raises what the gateway answers; what was done by then is kept, and the same command goes on.
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
        # A batch is repeated whole or not at all: its calls have the numbers that they had.
        save(folder, state)
        progress("repairing", state.repair_row, state.input_rows)
    return {name: state.repaired.get(name, 0) for name in (WRITTEN, REFUSED, HELD)}


def pieces(table: pa.Table) -> Iterator[pa.Table]:
    """Yields slices that one request takes each; the same rows are cut the same way."""
    rows = max(1, len(table) * PIECE_BYTES // max(table.nbytes, 1))
    for start in range(0, len(table), rows):
        yield table.slice(start, rows)


def _counted(verdicts: U8) -> dict[str, int]:
    """What became of rows; DUPLICATE with `own` was written by this very run, before it was interrupted."""
    kinds = verdicts & VERDICT_MASK
    written = (kinds == Verdict.GRANTED) | ((kinds == Verdict.DUPLICATE) & (verdicts & Flag.OWN != 0))
    refused = (kinds == Verdict.DUPLICATE) & ~written
    return {
        WRITTEN: int(written.sum()),
        REFUSED: int(refused.sum()),
        HELD: len(verdicts) - int(written.sum()) - int(refused.sum()),
    }
