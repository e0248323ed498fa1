"""The pages as the tests see them: their text, code blocks and words in backticks."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"!?\[[^\]]+\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def prose(self) -> str:
        """Returns the text without its code blocks."""
        return _FENCE.sub("", self.text)

    def blocks(self, *languages: str) -> list[str]:
        """Returns the code blocks of these languages; "" selects blocks without one."""
        return [found[2] for found in _FENCE.finditer(self.text) if found[1] in languages]

    def code(self) -> list[str]:
        """Returns the texts in backticks in the prose."""
        return _CODE.findall(self.prose)

    def links(self) -> list[str]:
        return _LINK.findall(self.prose)

    def anchors(self) -> set[str]:
        """Returns the anchors of the headings, as GitHub and mkdocs generate them."""
        kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(self.prose))
        return {re.sub(r"\s", "-", heading.strip()) for heading in kept}


ROOT_PAGES = ("README", "ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "PERFORMANCE", "RELIABILITY", "SECURITY", "STYLE")
PAGES = [
    *(Page(ROOT / f"{name}.md") for name in ROOT_PAGES),
    *(Page(path) for path in sorted((ROOT / "docs").rglob("*.md"))),
    Page(ROOT / "spark_client/README.md"),
]


def named(page: Page) -> str:
    return page.name
