"""How the pages are: short where they say so, narrow where a terminal shows them, of our own words."""

import re

import pytest

from tests.docs.pages import PAGES, ROOT, Page, named

ARCHITECTURE_LINES_MAX = 200
README_COLUMNS = 80
# Others' words for what we have: a search for one finds the place.
TERMS = ("backpressure", "memtable", "manifest", "WAL", "SSTable", "tombstone", "compaction", "snapshot")


def test_the_architecture_is_read_in_ten_minutes() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= ARCHITECTURE_LINES_MAX


@pytest.mark.parametrize("term", TERMS)
def test_the_architecture_has_the_words_that_people_look_for(term: str) -> None:
    assert re.search(rf"\b{term}\b", (ROOT / "ARCHITECTURE.md").read_text())


def test_the_readme_fits_a_terminal() -> None:
    page = Page(ROOT / "README.md")
    lines = [line for line in page.prose.splitlines() if not line.startswith(("|", "!["))]
    assert [line for line in lines if len(line) > README_COLUMNS] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_has_one_title_and_no_trailing_blanks(page: Page) -> None:
    assert len(re.findall(r"^# ", page.prose, re.MULTILINE)) == 1
    assert [line for line in page.text.splitlines() if line != line.rstrip()] == []
