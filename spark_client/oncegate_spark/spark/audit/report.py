"""What an audit has found: counts, as tables and bars in text, and as a picture that needs no library."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

COPIES = (1, 2, 3, 4, 5, 10, 100, 1_000)  # the least number of copies of each row of the table
APART_S = (0, 1, 60, 3_600, 86_400, 604_800, 2_592_000)  # the greatest distance of each, in seconds
APART = ("at the same time", "up to 1 second", "up to 1 minute", "up to 1 hour", "up to 1 day", "up to 7 days")
APART_NAMES = (*APART, "up to 30 days", "longer")
BAR = 32  # characters of the longest bar
LINE_PX, BAR_PX, BAR_X_PX = 22, 300, 170


@dataclass(frozen=True)
class Copies:
    """Says how many ids are in so many rows each. `least`: of COPIES, up to the next of them."""

    least: int
    ids: int
    rows: int

    @property
    def label(self) -> str:
        """The number of copies, or the range, as text."""
        most = dict(zip(COPIES, (*(low - 1 for low in COPIES[1:]), None), strict=True)).get(self.least)
        return (
            f"{self.least:,} or more" if most is None else str(most) if most == self.least else f"{self.least}-{most}"
        )


@dataclass(frozen=True)
class Apart:
    """Says how many ids have their first and last row so far apart. `bucket`: of APART_NAMES; None where a time is
    missing.
    """

    bucket: int | None
    ids: int
    duplicates: int

    @property
    def label(self) -> str:
        """The distance as text."""
        return "unknown" if self.bucket is None else APART_NAMES[self.bucket]


@dataclass(frozen=True)
class Audit:
    """Tells how often ids come again in the rows of an audit.

    rows             all that were read
    without_id       of them: the id is null or empty, so nobody knows whose duplicates they are
    copies           how many ids are in one row, in two, and so on
    apart            how far the first and the last row of an id lie apart, for ids with two rows and more; None where
                     no time is known. A horizon that is longer than the distance drops all duplicates of the id
    longest_apart_s  the longest of those, in seconds; None without one
    most_copies      the most rows that one id has; 0 where no id comes again
    most_copied      that id, as JSON
    """

    rows: int
    without_id: int
    copies: tuple[Copies, ...]
    apart: tuple[Apart, ...] | None
    longest_apart_s: float | None
    most_copies: int
    most_copied: str

    @property
    def ids(self) -> int:
        """How many different ids there are."""
        return sum(bucket.ids for bucket in self.copies)

    @property
    def duplicates(self) -> int:
        """Rows whose id stands in another row: what was to be written once would be without them."""
        return self.rows - self.without_id - self.ids

    @property
    def repeated_ids(self) -> int:
        """How many ids are in two rows or more."""
        return sum(bucket.ids for bucket in self.copies if bucket.least > 1)

    def __str__(self) -> str:
        return "\n".join([*self._summary(), *(line for name, bars in self._bars() for line in _text(name, bars))])

    def svg(self) -> str:
        """The counts and bars as a picture, for a file or a page."""
        lines: list[str] = []
        for text in self._summary():
            lines.append(_svg_text(4, len(lines), text))
        at = len(lines)
        for name, bars in self._bars():
            lines.append(_svg_text(4, at, name))
            lines += _svg_bars(at + 1, bars)
            at += 1 + len(bars)
        size = f'width="760" height="{(at + 1) * LINE_PX}"'
        body = "\n".join(lines)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">\n{body}\n</svg>'
        )

    def _repr_svg_(self) -> str:
        """What a notebook shows."""
        return self.svg()

    def _summary(self) -> list[str]:
        share = f" ({self.duplicates / self.rows:.2%})" if self.rows else ""
        lines = [f"{self.rows:,} rows, {self.ids:,} ids, {self.duplicates:,} duplicates{share}"]
        if self.without_id:
            lines.append(f"{self.without_id:,} rows have no id (null or empty): they are not counted as duplicates")
        if self.most_copies:
            lines.append(f"most often: {self.most_copied} in {self.most_copies:,} rows")
        if self.apart is None and self.repeated_ids:
            lines.append("how far apart is not known: give time_col, or the path")
        return lines

    def _bars(self) -> list[tuple[str, list[tuple[str, int]]]]:
        """The two histograms: title, and label and number of each bar; none that would be empty."""
        if not self.repeated_ids:
            return []
        bars = [("ids by number of copies", [(bucket.label, bucket.ids) for bucket in self.copies])]
        if self.apart:
            title = "ids that come again, by the time from first to last copy"
            bars.append((title, [(bucket.label, bucket.ids) for bucket in self.apart]))
        return bars


def _text(title: str, bars: Sequence[tuple[str, int]]) -> list[str]:
    most = max(count for _, count in bars)
    return ["", title, *(f"  {label:<16} {count:>13,} {'#' * _length(count, most, BAR)}" for label, count in bars)]


def _length(count: int, most: int, whole: int) -> int:
    """The length of a bar: what there is can always be seen."""
    return max(1, count * whole // most)


def _svg_text(x_px: int, line: int, text: str) -> str:
    return f'<text x="{x_px}" y="{(line + 1) * LINE_PX}">{escape(text)}</text>'


def _svg_bars(at: int, bars: Sequence[tuple[str, int]]) -> list[str]:
    most, lines = max(count for _, count in bars), []
    for line, (label, count) in enumerate(bars, at):
        width, top = _length(count, most, BAR_PX), line * LINE_PX + 9
        lines.append(_svg_text(16, line, label))
        lines.append(f'<rect x="{BAR_X_PX}" y="{top}" width="{width}" height="15" fill="#4477aa"/>')
        lines.append(_svg_text(BAR_X_PX + width + 8, line, f"{count:,}"))
    return lines
