"""The form of the pages: short where they claim to be, narrow enough for a terminal, in our own words."""

import re

import pytest

from scripts import prose
from tests.docs.pages import PAGES, ROOT, Page, named

ARCHITECTURE_WORDS_MAX = 1_300
README_WORDS_MAX = 1_150  # with its commands
README_COLUMNS = 80
# Of all pages together, as `wc -w` counts. Lower the first when pages become shorter, towards 45,000; raise none.
HAND_WRITTEN_WORDS_MAX = 51_000
GENERATED_WORDS_MAX = 25_000
# Words of the field for parts of ours: a search for one finds the place.
TERMS = ("backpressure", "memtable", "manifest", "WAL", "SSTable", "tombstone", "compaction", "snapshot")


@pytest.mark.parametrize(
    ("page", "words_max"), [("README.md", README_WORDS_MAX), ("ARCHITECTURE.md", ARCHITECTURE_WORDS_MAX)]
)
def test_the_first_pages_are_short(page: str, words_max: int) -> None:
    assert len((ROOT / page).read_text().split()) <= words_max


def test_all_pages_together_are_short() -> None:
    hand_written, generated = (sum(counts) for counts in zip(*prose.pages().values(), strict=True))
    assert hand_written <= HAND_WRITTEN_WORDS_MAX, "python scripts/prose.py --pages names the longest"
    assert generated <= GENERATED_WORDS_MAX


@pytest.mark.parametrize("term", TERMS)
def test_the_words_that_people_look_for_are_explained(term: str) -> None:
    assert re.search(rf"\b{term}\b", (ROOT / "docs/concepts.md").read_text())


def test_the_readme_fits_a_terminal() -> None:
    page = Page(ROOT / "README.md")
    lines = [line for line in page.prose.splitlines() if not line.startswith(("|", "!["))]
    assert [line for line in lines if len(line) > README_COLUMNS] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_has_one_title_and_no_trailing_blanks(page: Page) -> None:
    assert len(re.findall(r"^# ", page.prose, re.MULTILINE)) == 1
    assert [line for line in page.text.splitlines() if line != line.rstrip()] == []
