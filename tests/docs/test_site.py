"""`make docs`: the pages build without warnings and load nothing from other hosts."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, Page, named

# Elements that a browser loads by itself, unlike a link that a person may follow.
_LOADED = re.compile(r"<(?:script|img|iframe)[^>]* src=\"?([^\" >]+)|<link[^>]* href=\"?([^\" >]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_in_the_site(site: Path) -> None:
    at_root = {page.path.stem for page in PAGES if page.path.parent == ROOT} - {"README"}
    below = {str(page.path.relative_to(ROOT / "docs").with_suffix("")) for page in PAGES if "docs" in page.name}
    assert {"index", *at_root, *below} <= {str(path.relative_to(site).with_suffix("")) for path in site.rglob("*.html")}


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        loaded = ["".join(found) for found in _LOADED.findall(path.read_text())]
        assert loaded, "the pattern finds nothing any more"
        assert [place for place in loaded if "//" in place] == [], path.name


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page: Page) -> None:
    for link in page.links():
        if "://" in link:
            continue
        place, _, anchor = link.partition("#")
        target = (page.path.parent / place).resolve() if place else page.path
        assert target.exists(), link
        if anchor:
            assert anchor in Page(target).anchors(), link
