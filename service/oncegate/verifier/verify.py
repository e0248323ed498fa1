"""Runs a whole comparison: opens its sources, compares, repairs and reports."""

import ssl
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from oncegate.verifier.compare import partition_and_offset
from oncegate.verifier.findings import Findings
from oncegate.verifier.ids import as_ids, text_of
from oncegate.verifier.kinds import FindingKind
from oncegate.verifier.question import VerifyQuestion
from oncegate.verifier.repair import repair
from oncegate.verifier.report import IdFinding, RowLocation, VerifyReport
from oncegate.verifier.run import ComparisonRun
from oncegate.verifier.sources.gateway import GatewayClient
from oncegate.verifier.sources.inputs import Input
from oncegate.verifier.sources.outputs import GatewayTopic, Output
from oncegate.verifier.state import RunState, opened, remove

ReportStep = Callable[[str, int, int | None], None]
# Kinds whose ids are shown; FOREIGN is separate, since its ids have no input row.
_SHOWN = tuple(kind for kind in FindingKind if kind not in (FindingKind.OK, FindingKind.FOREIGN))


def verify(
    question: VerifyQuestion,
    folder: Path,
    repairs: bool,
    shown: int,
    progress: ReportStep,
    trusted: ssl.SSLContext | None = None,
) -> VerifyReport:
    """Runs the comparison and, with `repairs`, writes missing rows. Resumes an earlier run in the folder.

    Removes the folder once the report is made. Raises OncegateError and OSError: progress is saved in the folder, and
    without any progress there is no folder.
    """
    source = Input(question.input)
    source.check(question.columns, "--id-col")
    asking = GatewayClient(question.url, question.namespace, trusted=trusted)
    with closing(asking) as gateway, closing(_output(question, gateway)) as output:
        # A misspelt name or an unreachable server is reported before the input is read.
        output.bounds()
        source = source.typed(gateway.schema(question.topic))
        with opened(folder, question.identity) as (state, _):
            gateway.mark = state.mark or gateway.mark
            run = ComparisonRun(folder, state, question, source, gateway, progress)
            run.read_input()
            run.read_output(output)
            findings = run.compare(shown)
            findings_by_kind = _findings(question, source, output, findings)
            args = folder, state, question, source, gateway, findings, progress
            repaired = repair(*args) if repairs else None
            report = _report(state, findings, findings_by_kind, repaired)
            remove(folder)
            return report


def _output(question: VerifyQuestion, gateway: GatewayClient) -> Output:
    if not question.output:
        return GatewayTopic(gateway, question.topic, list(question.columns))
    # Imported here, since its client is an extra.
    from oncegate.verifier.sources.kafka_ids import SchemaRegistry, ids_of
    from oncegate.verifier.sources.kafka_topic import KafkaTopic

    registry = SchemaRegistry(question.registry, question.registry_ca) if question.registry else None
    return KafkaTopic(question.output, ids_of(question.output_id, registry))


def _findings(
    question: VerifyQuestion, source: Input, output: Output, findings: Findings
) -> dict[str, list[IdFinding]]:
    """Returns the first ids of each kind other than OK; reads input ids from the input, and foreign ids from the
    output.
    """
    rows = {kind: findings.first_rows(kind) for kind in _SHOWN if findings.counts[kind]}
    texts = _texts(question, source, {row for of_kind in rows.values() for row in of_kind})
    findings_by_kind = {
        kind.name.lower(): [IdFinding(texts[row], row, _places(findings.places_of_doubled(row))) for row in of_kind]
        for kind, of_kind in rows.items()
    }
    if findings.counts[FindingKind.FOREIGN]:
        findings_by_kind[FindingKind.FOREIGN.name.lower()] = [
            _foreign(output, row_code) for row_code in findings.foreign_places()
        ]
    return findings_by_kind


def _texts(question: VerifyQuestion, source: Input, wanted: set[int]) -> dict[int, str | list[str]]:
    """Returns the ids of input rows, as text."""
    texts: dict[int, str | list[str]] = {}
    columns = list(question.columns)
    for first, table in source.batches(0, columns) if wanted else ():
        rows = sorted(row for row in wanted if first <= row < first + len(table))
        if rows:
            ids = as_ids(table, columns).take(pa.array([row - first for row in rows], pa.int64()))
            texts |= zip(rows, map(text_of, ids.to_pylist()), strict=True)
        if len(texts) == len(wanted):
            break
    return texts


def _foreign(output: Output, row_code: int) -> IdFinding:
    partition, offset = partition_and_offset(row_code)
    part = next(iter(output.parts(partition, offset, offset + 1)))
    return IdFinding(text_of(part.ids.to_pylist()[0]), None, _places([row_code]))


def _places(row_codes: list[int]) -> list[RowLocation]:
    return [RowLocation(*partition_and_offset(row_code)) for row_code in row_codes]


def _report(
    state: RunState, findings: Findings, findings_by_kind: dict[str, list[IdFinding]], repaired: dict[str, int] | None
) -> VerifyReport:
    wrong = sum(count for kind, count in findings.counts.items() if kind is not FindingKind.OK)
    return VerifyReport(
        ok=wrong + state.without_id == 0,
        ids={kind.name.lower(): findings.counts[kind] for kind in FindingKind},
        input_rows=state.input_rows,
        repeated=findings.repeated,
        output_rows=state.output_rows,
        without_id=state.without_id,
        doubled_rows=findings.extra_rows,
        foreign_rows=findings.foreign_rows,
        trimmed={str(number): low for number, low in enumerate(state.low) if low},
        findings=findings_by_kind,
        repaired=repaired,
    )
