"""Adds the pages of the repository's root to the site, and adjusts the links.

mkdocs calls the functions below (`hooks` in mkdocs.yml). In the repository README.md is above docs/; in the site both
are in one folder. Links to anything but a page (a source file, a folder) become plain text.
"""

import os.path
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
ROOT_PAGES = ("ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "PERFORMANCE", "RELIABILITY", "SECURITY", "STYLE")
HOME = "README.md"
_LINK = re.compile(r"(!?)\[([^\]]+)\]\(([^)#\s]*)(#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def on_files(files: Files, *, config: Any) -> Files:
    """Adds README.md as the first page, and the other pages of the root under their names."""
    for source, target in {HOME: "index.md", **{f"{name}.md": f"{name}.md" for name in ROOT_PAGES}}.items():
        text = (ROOT / source).read_text()
        files.append(File.generated(config, target, content=mended(text, ROOT)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Adjusts the links of a page in docs/; those of the root's pages are adjusted when they are added."""
    return markdown if page.file.generated_by else mended(markdown, (ROOT / "docs" / page.file.src_uri).parent)


def mended(text: str, folder: Path) -> str:
    """Returns a page of `folder` with its links adjusted to the site; code blocks are unchanged."""
    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(lambda m: _link(m, folder), part) for part in parts)


def _link(match: re.Match[str], folder: Path) -> str:
    image, text, path, anchor = match[1], match[2], match[3], match[4] or ""
    if not path or "://" in path:
        return match[0]
    target = _in_site((folder / path).resolve(), folder)
    return f"{image}[{text}]({target}{anchor})" if target else text


def _in_site(path: Path, folder: Path) -> str | None:
    """Returns the link to a file of the repository in the site, from a page of `folder`; None if the site lacks it.

    A page that does not exist keeps its name, so that mkdocs reports it.
    """
    docs = ROOT / "docs"
    if path.parent == ROOT and (path.stem in ROOT_PAGES or path.name == HOME):
        place = docs / ("index.md" if path.name == HOME else path.name)
    elif path.is_relative_to(docs):
        place = path
    else:
        return None
    return os.path.relpath(place, folder if folder.is_relative_to(docs) else docs)
