"""Quotes measurements: a page of docs/figures for each, and the few rows of them in PERFORMANCE.md.

    python -m scripts.quote_figures           rewrite the pages from out/<name>/result.md and .png, where they exist
    python -m scripts.quote_figures --check   exit 1 if a page differs from its own results; nothing is written

Without a new result, a page keeps its old one. No figure is written by hand: PERFORMANCE.md quotes these pages.
"""

import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.report.figures import Figure, number
from bench.report.report import quoted
from scripts.prose import GENERATED_BY

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs/figures"
SUMMARY = ROOT / "PERFORMANCE.md"
_MEASURED = "<!-- measured: {} -->\n"
_END = "<!-- end -->"
# The rows of PERFORMANCE.md.
_TWELVE = "twelve"


@dataclass(frozen=True)
class FigurePage:
    """A page of docs/figures. `name`: of the page and of its folder in out/; `picture`: the picture's alt text."""

    name: str
    title: str
    about: str
    picture: str = ""

    @property
    def path(self) -> Path:
        """Returns the path of the page."""
        return FOLDER / f"{self.name}.md"

    def text(self, result: str) -> str:
        """Returns the whole page around `result`."""
        picture = f"\n![{self.picture}]({self.name}.png)\n" if self.picture else ""
        head = f"{GENERATED_BY.format('scripts/quote_figures.py')}# {self.title}\n\n{self.about}\n\n"
        return f"{head}{_MEASURED.format(self.name)}{result}{_END}\n{picture}"


PAGES = (
    FigurePage(
        "bench",
        "Figures: `make bench`",
        "Gateway and peers on one core each, medians of interleaved runs ([method](../../PERFORMANCE.md#method)). "
        "`reach` is the value that was aimed at.",
        "speed relative to the peer for each kind of work, and latencies",
    ),
    FigurePage(
        "scale",
        "Figures: a hundred million ids",
        "One process, the embedded log, requests of 10,000 ids: 90 % new, 8 % recent, 2 % old, each claimed and "
        "completed under leases of one second.",
        "rate, memory and pauses by number of ids",
    ),
    FigurePage(
        "scale-300M",
        "Figures: three hundred million ids",
        "The load of [a hundred million ids](scale.md), three times as long.",
        "rate, memory and pauses by number of ids, up to 300 million",
    ),
    FigurePage(
        "bench-kafka",
        "Figures: Kafka",
        "One broker that acknowledges from memory holds the ledger and the topics. `per second of processor` counts "
        "client and gateway, or client and producer, and excludes the broker.",
        "speed relative to the peer for each kind of work on Kafka",
    ),
    FigurePage(
        "bench-sections",
        "Figures: Redis, gRPC, traces, verifier",
        "Sections of `make bench` that run alone.",
        "speed relative to the peer for each kind of claim, and for the verifier",
    ),
    FigurePage(
        "large-batch",
        "Figures: a batch of one GiB on Kafka",
        "A client claims 20 ids a second beside the batch; waits count from the intended send time. Memory is the "
        "gateway's peak RSS above its level before the batch.",
        "due time and wait of each claim",
    ),
    FigurePage(
        "spark-matrix",
        "Figures: faults against write modes",
        "Each run is a Spark job of three micro-batches that meets one fault and is then finished: a running count by "
        "key, a join of two streams, a flat map, rows repartitioned by another key, or a count of the output of an "
        "earlier job. `hit` counts the runs in which the affected rows were seen twice; `plain` shows that the fault "
        "has an effect. A copy under `claim` is a counted takeover. `dedup` runs inside `foreachBatch` before a staged "
        "write. Executors run in `local-cluster`; speculation uses a standalone master with two workers. "
        "`tests/spark/test_kinds_of_jobs.py` and `tests/spark/test_executors.py` run a part of it in `make test-long`.",
    ),
    FigurePage(
        "matrix",
        "Figures: faults against a ledger on Kafka",
        "`make matrix` runs a real gateway on real brokers while a client claims, completes and produces with retries. "
        "A proxy that decodes the protocol holds, loses or doubles frames; the process is killed or stopped at the "
        "steps that `tests/matrix/failpoints.py` wraps from outside. Afterwards a second client (confluent-kafka, "
        "`read_committed`) audits the topics: every acknowledged id is DUPLICATE, no held id is granted, frames are "
        "consecutive by serial, position and chain, everything a frame names is there with its bytes, nothing else is "
        "visible, no transaction is open, and EndTxn was sent once a transaction. `control-*` rows write every try as "
        "new and must show duplicates. `hits`: runs that met the fault; `bound`: 3 / hits. `--list` names the rows, "
        "`--jobs N` runs N rows at a time, `--resume` continues from `out/matrix/result.json`.",
    ),
)


@dataclass(frozen=True)
class Quote:
    """A row of PERFORMANCE.md: the figure `name` of a page, compared with `peer`."""

    work: str
    page: str
    name: str
    peer: str


_MULTI = "Redis, raw socket, MULTI SMISMEMBER SADD EXEC"
QUOTES = (
    Quote("claim, 1 id a request, 64 clients", "bench", "claim, packed, 1 ids, 64 clients", _MULTI),
    Quote("claim, 100 ids, 64 clients", "bench", "claim, packed, 100 ids, 64 clients", _MULTI),
    Quote("claim, 1,000 ids, 16 clients", "bench", "claim, packed, 1,000 ids, 16 clients", _MULTI),
    Quote("claim, 10,000 ids, 16 clients", "bench", "claim, packed, 10,000 ids, 16 clients", _MULTI),
    Quote("claim and complete, the same", "bench", "claim and complete, packed, 10,000 ids, 16 clients", _MULTI),
    Quote("claim, JSON, 1,000 ids, 16 clients", "bench", "claim, JSON strings, 1,000 ids, 16 clients", _MULTI),
    Quote("memory of an id", "bench", "memory, the process, 10,000 ids a request", "Redis, a set of ids"),
    Quote("disk of an id", "bench", "disk, 10,000 ids a request", "Redis, a set of ids"),
    Quote("Spark `staged`, TPC-H `lineitem`", "bench", "Spark, lineitem by staged, 6,000,000 rows", "parquet files"),
    Quote(
        "Spark `ids`, deduplicating",
        "bench",
        "Spark, deduplicated by ids, 10,000,000 rows",
        "the faster of Spark's streaming deduplications",
    ),
    Quote(
        "rows into Kafka, 100 bytes, 8 clients",
        "bench-kafka",
        "rows into Kafka, 100 bytes, 10,000 a request, 8 clients",
        "confluent-kafka, transactions, produce_batch",
    ),
    Quote(
        "Spark `staged` into Kafka",
        "bench-kafka",
        "Spark into Kafka, staged, 2,000,000 rows",
        "Spark's own Kafka sink, at least once",
    ),
)


def result_of(page: str, name: str) -> str:
    """Returns the text between the markers of `name`. Raises ValueError unless they occur exactly once."""
    texts = re.findall(rf"{re.escape(_MEASURED.format(name))}(.*?){_END}", page, re.DOTALL)
    if len(texts) != 1:
        raise ValueError(f"the page has the markers of {name} {len(texts)} times")
    return str(texts[0])


def summary() -> str:
    """Returns the rows of PERFORMANCE.md from the pages. Raises KeyError if a page lacks a figure."""
    rows = ["| work | Oncegate | beside | its value | ratio |", "|---|---|---|---|---|"]
    figures = {page.name: {(f.name, f.peer): f for f in quoted(page.path.read_text())} for page in PAGES}
    for quote in QUOTES:
        figure = figures[quote.page][quote.name, quote.peer]
        rows.append(f"| {quote.work} | {_shown(figure.value, figure)} | {quote.peer} | {_beside(figure)} |")
    return "\n".join(rows) + "\n"


def _beside(figure: Figure) -> str:
    return f"{_shown(figure.peer_value or 0.0, figure)} | {figure.ratio:.3g}×"


def _shown(value: float, figure: Figure) -> str:
    return f"{number(value)} {figure.unit}"


def stale() -> dict[Path, str]:
    """Returns the pages that differ from their results, with their correct text."""
    texts: dict[Path, str] = {}
    for page in PAGES:
        new = ROOT / "out" / page.name / "result.md"
        texts[page.path] = page.text(new.read_text() if new.exists() else result_of(page.path.read_text(), page.name))
    text = SUMMARY.read_text()
    before, after = (
        _MEASURED.format(_TWELVE) + result_of(text, _TWELVE) + _END,
        _MEASURED.format(_TWELVE) + summary() + _END,
    )
    texts[SUMMARY] = text.replace(before, after)
    return {path: text for path, text in texts.items() if path.read_text() != text}


def main() -> int:
    """Rewrites stale pages, or with `--check` prints their names; returns the exit status."""
    # Twice, since PERFORMANCE.md quotes pages written by the first pass.
    for _ in range(2):
        pages = stale()
        for path, text in pages.items():
            if "--check" in sys.argv:
                sys.stdout.write(f"{path.relative_to(ROOT)} is stale: python -m scripts.quote_figures\n")
            else:
                path.write_text(text)
        if "--check" in sys.argv:
            return int(bool(pages))
    for page in PAGES:
        picture = ROOT / "out" / page.name / "result.png"
        if page.picture and picture.exists():
            shutil.copyfile(picture, FOLDER / f"{page.name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
