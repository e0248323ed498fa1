"""The pages that quote measurements."""

import pytest

from scripts.prose import hand_written
from scripts.quote_figures import FOLDER, PAGES, QUOTES, FigurePage, result_of, stale, summary


def test_every_page_of_figures_is_what_its_program_writes() -> None:
    assert {page.path for page in PAGES} == set(FOLDER.glob("*.md"))
    assert stale() == {}, "run: python -m scripts.quote_figures"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_new_result_replaces_the_one_that_a_page_quotes(page: FigurePage) -> None:
    text = page.text("new text\n")
    assert hand_written(text) == ""
    assert result_of(text, page.name) == "new text\n"


@pytest.mark.parametrize("page", [page for page in PAGES if page.picture], ids=lambda page: page.name)
def test_each_page_with_a_picture_has_its_file(page: FigurePage) -> None:
    assert page.path.with_suffix(".png").exists()


def test_the_summary_has_twelve_rows_each_beside_a_peer() -> None:
    assert len(QUOTES) == 12
    assert len(summary().splitlines()) == 2 + 12


def test_a_page_without_the_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="0 times"):
        result_of("nothing", "bench")
