"""Prose stays at or below a number of translated-sounding patterns for 1,000 words, counted by scripts/prose.py."""

import pytest

from scripts import prose

# folder: matches for 1,000 words. Lower a bound when a folder improves; raise none.
BOUNDS = {"service": 2.5, "spark_client": 2.5, "docs": 2.5, "tests": 2.5}


@pytest.mark.parametrize("folder", BOUNDS)
def test_prose_matches_few_patterns_of_translated_english(folder: str) -> None:
    matches, words = prose.rate(folder)
    assert 1000 * matches / words <= BOUNDS[folder], f"python scripts/prose.py --matches {folder} prints each"


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ('"""Tells the offset."""', "docstring"),
        ("x = 1  # what is left", "comment"),
        ('raise ValueError(f"partition {x} stands in no list of topics")', "message"),
        ("def test_nobody_is_answered(): ...", "name"),
    ],
)
def test_each_kind_of_prose_in_code_is_counted(source: str, kind: str) -> None:
    assert [text.kind for text in prose.code("a.py", source) if text.matches()] == [kind]


def test_tables_of_a_page_are_counted_and_generated_text_is_not() -> None:
    page = "| a | nobody |\n\n<!-- drawn: x -->\nnobody\n<!-- end -->\nThe end.\n"
    assert [(text.line, len(text.matches())) for text in prose.page("a.md", page)] == [(1, 0), (1, 1), (6, 0)]
    assert list(prose.page("a.md", prose.GENERATED_BY.format("a.py") + page)) == []


def test_a_pattern_or_a_path_is_no_message() -> None:
    assert not list(prose.code("a.py", 'x = "SELECT told FROM lies"; y = "told/nobody"'))
