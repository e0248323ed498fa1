"""The page that quotes the bench."""

from pathlib import Path

import pytest

from scripts.quote_figures import PAGE, RESULTS, quoted


@pytest.mark.parametrize("name", RESULTS)
def test_the_page_has_one_place_for_each_result_and_its_picture(name: str) -> None:
    page = PAGE.read_text()
    assert "new text" in quoted(page, name, "new text\n")
    assert (Path(PAGE).parent / "docs" / f"{name}.png").exists()


def test_what_stands_between_other_markers_stays() -> None:
    page = "<!-- measured: a -->\nold a\n<!-- end -->\n<!-- measured: b -->\nold b\n<!-- end -->\n"
    assert quoted(page, "a", "new\n") == page.replace("old a", "new")


def test_a_page_without_the_place_is_refused() -> None:
    with pytest.raises(ValueError, match="0 times"):
        quoted("nothing", "bench", "text")
