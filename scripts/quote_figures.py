"""Quotes the last `make bench`, `make scale`, `make spark-matrix` and `make matrix`, between the markers of each.

It rewrites the pages that quote them.

python scripts/quote_figures.py     rewrite the pages from out/<name>/result.md, where it is there; pictures go to docs/
"""

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = {
    "PERFORMANCE.md": ("bench", "bench-kafka", "bench-sections", "scale", "scale-300M", "large-batch"),
    "RELIABILITY.md": ("spark-matrix", "matrix"),
}


def quoted(page: str, name: str, text: str) -> str:
    """Gives the page with `text` between the markers of `name`; ValueError when they are not there just once."""
    pattern = re.compile(rf"(<!-- measured: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    page, times = pattern.subn(lambda match: f"{match[1]}{text}{match[2]}", page)
    if times != 1:
        raise ValueError(f"the page has the markers of {name} {times} times")
    return page


def main() -> int:
    """Rewrites the pages from what the measurements left; the exit status."""
    for page, names in RESULTS.items():
        text = (ROOT / page).read_text()
        for name in names:
            table, picture = (ROOT / "out" / name / f"result.{kind}" for kind in ("md", "png"))
            if table.exists():
                text = quoted(text, name, table.read_text())
            if picture.exists():
                shutil.copyfile(picture, ROOT / "docs" / f"{name}.png")
        (ROOT / page).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
