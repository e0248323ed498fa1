"""Quotes the last `make bench` and `make scale` in PERFORMANCE.md, between their markers; their pictures go to docs/.

python scripts/quote_figures.py     rewrite the page from out/bench, out/scale, out/scale-300M, where they have results
"""

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "PERFORMANCE.md"
RESULTS = ("bench", "scale", "scale-300M")


def quoted(page: str, name: str, text: str) -> str:
    """Gives the page with `text` between the markers of `name`; ValueError when they are not there just once."""
    pattern = re.compile(rf"(<!-- measured: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    page, times = pattern.subn(lambda found: f"{found[1]}{text}{found[2]}", page)
    if times != 1:
        raise ValueError(f"the page has the markers of {name} {times} times")
    return page


def main() -> int:
    """Rewrites the page from what `make bench` and `make scale` left; the exit status."""
    page = PAGE.read_text()
    for name in RESULTS:
        table, picture = (ROOT / "out" / name / f"result.{kind}" for kind in ("md", "png"))
        if table.exists():
            page = quoted(page, name, table.read_text())
            shutil.copyfile(picture, ROOT / "docs" / f"{name}.png")
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
