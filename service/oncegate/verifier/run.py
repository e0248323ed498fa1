"""Runs a comparison in steps: reads the input with the ledger's answers, then the output, then compares each bucket.
Each step is saved.

The order makes the result correct while rows are still being written. The ledger is asked before the output is read to
its end: an id that the ledger knew was written before, so if the output lacks it, it is missing. An output row that the
ledger did not know may have been written in between, so the ledger is asked again.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from oncegate.hashing.ids import Fingerprinter
from oncegate.verifier.compare import compare, input_places, output_places
from oncegate.verifier.findings import Findings
from oncegate.verifier.ids import as_ids, fingerprints, present
from oncegate.verifier.kinds import FindingKind, Standing, told_of
from oncegate.verifier.question import VerifyQuestion
from oncegate.verifier.runs import BUCKETS, SortedRuns
from oncegate.verifier.sources.gateway import GatewayClient
from oncegate.verifier.sources.inputs import Input
from oncegate.verifier.sources.outputs import Output
from oncegate.verifier.state import RunState, save

# Called with the name of a step, the amount done, and the total; None: unknown.
ReportStep = Callable[[str, int, int | None], None]


class ComparisonRun:
    """Runs a comparison from the saved state in a folder."""

    def __init__(
        self,
        folder: Path,
        state: RunState,
        question: VerifyQuestion,
        source: Input,
        gateway: GatewayClient,
        progress: ReportStep,
    ) -> None:
        self._folder, self._state, self._question = folder, state, question
        self._input, self._gateway, self._progress = source, gateway, progress
        self._printer = Fingerprinter(state.key)

    def read_input(self) -> None:
        """Hashes the ids of the input and looks each up in the ledger. Raises the errors of reading and of the
        gateway."""
        state, columns = self._state, list(self._question.columns)
        if state.stage != "input":
            return
        runs, total = SortedRuns(self._folder, "input", state.input_runs), self._input.rows
        row = state.input_rows
        for first, table in self._input.batches(row, columns):
            ids, row = as_ids(table, columns), first + len(table)
            rows = fingerprints(ids, self._printer, first)
            standings = told_of(self._gateway.look_up(ids, self._question.id_set))
            runs.add(rows, input_places(first, standings))
            self._progress("input and ledger", row, total)
            if runs.is_full:
                self._keep_input(runs, row)
        self._keep_input(runs, row, "output")

    def read_output(self, output: Output) -> None:
        """Hashes the ids of the output, partition by partition, up to its end as of the start of this step."""
        state = self._state
        if state.stage != "output":
            return
        runs = SortedRuns(self._folder, "output", state.output_runs)
        if not state.ends:
            bounds = output.bounds()
            state.low, state.ends = [first for first, _ in bounds], [end for _, end in bounds]
            state.next_offsets = list(state.low)
        total = sum(state.ends) - sum(state.low)
        for partition, end in enumerate(state.ends):
            for part in output.parts(partition, state.next_offsets[partition], end):
                kept = present(part.ids)
                ids, offsets = part.ids.filter(kept), part.offsets[kept]
                runs.add(fingerprints(ids, self._printer, 0), output_places(partition, offsets))
                state.output_rows += len(part.ids)
                state.without_id += len(part.ids) - len(ids)
                state.next_offsets[partition] = part.next_offset
                self._progress("output", sum(state.next_offsets) - sum(state.low), total)
                if runs.is_full:
                    self._keep_output(runs)
        self._keep_output(runs, "compare")

    def compare(self, shown: int) -> Findings:
        """Compares all buckets, one in memory at a time, and asks the ledger again for ids whose kind may have
        changed."""
        state = self._state
        expected = SortedRuns(self._folder, "input", state.input_runs)
        written = SortedRuns(self._folder, "output", state.output_runs)
        findings = Findings(self._folder, state.input_rows, shown)
        for bucket in range(BUCKETS):
            findings.add(compare(expected.load(bucket), written.load(bucket)))
            self._progress("comparing", bucket + 1, BUCKETS)
        if findings.counts[FindingKind.UNRECORDED]:
            self._ask_again(findings)
        return findings

    def _ask_again(self, findings: Findings) -> None:
        """Changes to OK the ids of the output that the ledger knows by this time: they were written between the two
        readings.
        """
        columns = list(self._question.columns)
        for row, table in self._input.batches(0, columns):
            at = np.flatnonzero(findings.kinds(row, len(table)) == FindingKind.UNRECORDED)
            if len(at):
                ids = as_ids(table, columns).take(at)
                standings = told_of(self._gateway.look_up(ids, self._question.id_set))
                findings.change(row + at[standings == Standing.KNOWN], FindingKind.OK)
            self._progress("asking again", row + len(table), self._state.input_rows)

    def _keep_input(self, runs: SortedRuns, rows: int, stage: str = "input") -> None:
        self._state.input_runs, self._state.input_rows = runs.flush(), rows
        self._keep(stage)

    def _keep_output(self, runs: SortedRuns, stage: str = "output") -> None:
        self._state.output_runs = runs.flush()
        self._keep(stage)

    def _keep(self, stage: str) -> None:
        self._state.stage, self._state.mark = stage, self._gateway.mark
        save(self._folder, self._state)
