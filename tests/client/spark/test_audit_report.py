"""An audit's counts as text and as a picture."""

import xml.etree.ElementTree as ET

from oncegate_spark.spark.audit import Apart, Audit, Copies

FOUND = Audit(
    rows=1_010,
    without_id=3,
    copies=(Copies(1, 900, 900), Copies(2, 50, 100), Copies(5, 1, 7)),
    apart=(Apart(1, 50, 50), Apart(None, 1, 6)),
    longest_apart_s=0.5,
    most_copies=7,
    most_copied='{"c0":"<a & b>"}',
)
NOTHING = Audit(10, 0, (Copies(1, 10, 10),), None, None, 0, "")


def test_the_numbers_add_up() -> None:
    assert (FOUND.ids, FOUND.duplicates, FOUND.repeated_ids) == (951, 56, 51)
    assert (NOTHING.ids, NOTHING.duplicates, NOTHING.repeated_ids) == (10, 0, 0)


def test_the_text_has_a_line_for_each_number_and_a_bar_that_can_be_seen() -> None:
    lines = str(FOUND).splitlines()
    assert lines[0] == "1,010 rows, 951 ids, 56 duplicates (5.54%)"
    assert "3 rows have no id (null or empty)" in lines[1]
    assert f"  {'1':<16} {'900':>13} {'#' * 32}" in lines
    assert f"  {'5-9':<16} {'1':>13} #" in lines
    assert any(line.startswith("  up to 1 second") for line in lines)
    assert any(line.startswith("  unknown") for line in lines)
    assert Copies(1_000, 1, 1_000).label == "1,000 or more"


def test_rows_without_duplicates_are_one_line() -> None:
    assert str(NOTHING) == "10 rows, 10 ids, 0 duplicates (0.00%)"
    assert str(Audit(0, 0, (), None, None, 0, "")) == "0 rows, 0 ids, 0 duplicates"


def test_the_picture_is_well_formed_and_shows_every_bar() -> None:
    for one in (FOUND, NOTHING):
        drawn = ET.fromstring(one.svg())
        bars = [part for part in drawn if part.tag.endswith("rect")]
        assert len(bars) == (len(FOUND.copies) + 2 if one is FOUND else 0)
        assert all(int(bar.attrib["width"]) >= 1 for bar in bars)
        bottom = max(int(part.attrib["y"]) for part in drawn)
        assert bottom <= int(drawn.attrib["height"])
    assert "<a & b>" in "".join(ET.fromstring(FOUND.svg()).itertext())
