"""The pages that quote a measurement."""

import pytest

from scripts.quote_figures import RESULTS, ROOT, quoted


@pytest.mark.parametrize(("page", "name"), [(page, name) for page, names in RESULTS.items() for name in names])
def test_a_page_has_one_place_for_each_of_its_results(page: str, name: str) -> None:
    assert "new text" in quoted((ROOT / page).read_text(), name, "new text\n")


@pytest.mark.parametrize("name", RESULTS["PERFORMANCE.md"])
def test_each_result_about_speed_has_its_picture(name: str) -> None:
    assert (ROOT / "docs" / f"{name}.png").exists()


def test_what_stands_between_other_markers_stays() -> None:
    page = "<!-- measured: a -->\nold a\n<!-- end -->\n<!-- measured: b -->\nold b\n<!-- end -->\n"
    assert quoted(page, "a", "new\n") == page.replace("old a", "new")


def test_a_page_without_the_place_is_refused() -> None:
    with pytest.raises(ValueError, match="0 times"):
        quoted("nothing", "bench", "text")
