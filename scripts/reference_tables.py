"""Tables of what a user can set: Spark options from the client, settings and limits from the service."""

import re
from pathlib import Path

from oncegate.settings import ProcessSettings, SemanticSettings
from oncegate_spark.spark.options import READ, WAYS, WRITES

LIMITS_SOURCE = Path(__file__).parent.parent / "service/oncegate/engine/limits.py"
_FIELD = re.compile(r"^    (\w+): ")
_UNITS = {1 << 30: "GiB", 1 << 20: "MiB", 1 << 10: "KiB"}
# Each Spark option: its default, and what it does.
MEANINGS = {
    "url": ("", "the gateway, `http://127.0.0.1:8080`; required"),
    "namespace": ("default", "the domain of ids; it must exist"),
    "topic": ("", "the gateway's topic; `start(…)`, `save(…)` and `load(…)` take it too"),
    "timeoutMs": ("120000", "how long a call is tried again before the task fails, 1,000 to 86,400,000"),
    "checkpointLocation": ("", "Spark's own; the sink reads the batch's input from its offset log"),
    "write": ("staged", "how to write: `staged`, `ids`, `claim` or `plain`"),
    "idCol": (
        "",
        "columns that are a row's id, by commas: strings, binary or whole numbers, never null",
    ),
    "producerCol": ("", "by sequence: the column that names a row's lane; goes with `sequenceCol`"),
    "sequenceCol": ("", "by sequence: the column with a row's number in its lane; goes with `producerCol`"),
    "scope": ("namespace", "`retry`: ids belong to their micro-batch and are forgotten when it is acked"),
    "digestCols": ("", "columns whose content is the payload of an id: another payload under a written id is told"),
    "onConflict": ("fail", "a row whose id was written with another payload: `fail` the task, or `drop` and count it"),
    "keyCol": ("", "rows of one key lie in one partition, in order; without it requests take turns"),
    "sink": ("", "`module:factory` of your sink; required"),
    "sinkPath": ("", "the folder of the file sink, `oncegate_spark.spark.sinks:files`"),
    "leaseMs": ("30000", "how long a silent task holds its ids, 1,000 to 900,000"),
    "txnAppId": ("", "a name of the job that outlives its checkpoint"),
    "txnVersion": ("", "a batch job's run, `2026-11-20`: a re-run under the same name is recognised"),
    "writeId": ("", "tells two writes to one topic inside one `foreachBatch` apart; the same at every run"),
    "onReplayMismatch": ("fail", "a replay with other rows where the input is unknown: `fail`, or `first_wins`"),
    "startingOffsets": ("earliest", "`earliest`, `latest`, or offsets by partition as JSON"),
    "endingOffsets": ("latest", "of a batch read; a stream ends with `trigger(availableNow=True)`"),
    "maxRowsPerBatch": ("", "rows of one micro-batch at most"),
    "failOnDataLoss": ("true", "rows that retention took before they were read stop the query"),
    "columns": ("", "only these columns, by commas; Spark prunes none by itself"),
    "includeOffsets": ("false", "two more columns, `_partition` and `_offset`"),
}


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def spark_options() -> str:
    """Every option of the Spark sink and source, and the ways to write that do something with it."""
    rows = []
    for name, ways in WAYS.items():
        default, meaning = MEANINGS[name]
        rows.append([f"`{name}`", _ways(ways), f"`{default}`" if default else "", meaning])
    return table(["option", "for", "default", "what it does"], rows)


def _ways(ways: tuple[str, ...]) -> str:
    writes = [way for way in ways if way != READ]
    named = ["every write"] if len(writes) == len(WRITES) else [f"`{way}`" for way in writes]
    return ", ".join([*named, *(["reading"] if READ in ways else [])])


def settings() -> str:
    """Every setting, its default, and the reason of the limits among them."""
    reasons = limit_reasons()
    halves = {"all owners of the data": SemanticSettings, "this process": ProcessSettings}
    rows = [
        [f"`{name}`", shown(name, field.default), half, reasons.get(name, OTHERS.get(name, ""))]
        for half, model in halves.items()
        for name, field in model.model_fields.items()
    ]
    return table(["setting", "default", "agreed by", "why this default, or what it does"], rows)


# Settings that are no limits.
OTHERS = {
    "ledger": "where the data is: `log:FOLDER` on disk, `memory:` for tests; `--data` is the short form",
    "witness": "where the ledger's high-water mark is kept; beside the data folder if not given",
    "host": "a loopback address: there are no credentials yet",
    "port": "0: any free one",
    "port_file": "the port is written here once the gateway is ready",
    "log_format": "`text` or `json`",
    "shutdown_ms": "how long callers are waited for after SIGTERM",
}


def shown(name: str, value: object) -> str:
    """A default as a person writes it: bytes in binary units, other numbers with separators."""
    if value is None:
        return ""
    if isinstance(value, int) and name.endswith(("_bytes", "bytes_in_flight", "bytes_per_second")):
        for size, unit in _UNITS.items():
            if value >= size and value % size == 0:
                return f"{value // size} {unit}"
    return f"{value:,}" if isinstance(value, int) else f"`{value}`"


def limit_reasons() -> dict[str, str]:
    """The comment above each field of `Limits`; fields without one share that of the field above."""
    reasons: dict[str, str] = {}
    comment: list[str] = []
    for line in LIMITS_SOURCE.read_text().splitlines():
        if line.startswith("    # "):
            comment = [*comment, line.removeprefix("    # ")]
        elif found := _FIELD.match(line):
            reasons[found[1]] = " ".join(comment)
            comment = []
    return reasons
