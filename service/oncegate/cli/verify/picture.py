"""Draws counts as bars, in SVG: a file that any browser shows, without a library for pictures."""

from collections.abc import Sequence
from html import escape

_WIDTH, _BAR_X, _ROW = 900, 170, 44
_OK, _WRONG = "#2e7d32", "#c62828"


def picture_of(title: str, lines: Sequence[tuple[str, int, str]]) -> str:
    """Draws a bar for each (name, count, meaning), as long as its part of the largest; the first is good."""
    most = max([count for _, count, _ in lines] + [1])
    bars = "".join(_bar(place, most, *line) for place, line in enumerate(lines))
    height = 60 + _ROW * len(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif">'
        f'<rect width="100%" height="100%" fill="white"/><text x="16" y="32" font-size="20">{escape(title)}</text>'
        f"{bars}</svg>\n"
    )


def _bar(place: int, most: int, name: str, count: int, meaning: str) -> str:
    y = 60 + _ROW * place
    # One id of many millions is to be seen too.
    length = 0 if count == 0 else max(3, count * (_WIDTH - _BAR_X - 130) // most)
    shown = escape(name.replace("_", " "))
    return (
        f'<text x="16" y="{y + 15}" font-size="15">{shown}</text>'
        f'<rect x="{_BAR_X}" y="{y}" width="{length}" height="18" fill="{_WRONG if place else _OK}"/>'
        f'<text x="{_BAR_X + length + 8}" y="{y + 15}" font-size="15">{count:,}</text>'
        f'<text x="{_BAR_X}" y="{y + 34}" font-size="12" fill="#555">{escape(meaning)}</text>'
    )
