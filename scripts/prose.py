"""Counts patterns of translated-sounding English in the prose of the project, and samples sentences to read aloud.

python scripts/prose.py [FOLDER …]          counts for each folder, and the files with the most matches
python scripts/prose.py --matches [PATH …]  each match, as path:line
python scripts/prose.py --sample 100 --seed 7 [--kind message]   sentences drawn at random
python scripts/prose.py --diff REVISION     matches in lines added since a revision
python scripts/prose.py --pages             words of every page, hand-written and generated

Prose is docstrings, comments, strings of four words or more (errors, log lines, help, reasons in tables), names of
tests, and pages with their tables. Text between `<!-- drawn: … -->` or `<!-- measured: … -->` and `<!-- end -->` is
generated: the counts leave it out. They show where to read; the measure is a reader who has never seen the code.
"""

import argparse
import ast
import random
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PATTERNS = {
    "a clause with 'what' for a noun": re.compile(
        r"(?:^|[.;:,(] )[Ww]hat (?:is|was|are|were|came|comes|has|had|lies|stands|others|the|a|an|it|they|one|nobody"
        r"|somebody)\b",
        re.M,
    ),
    "tell or say for return, raise, log": re.compile(r"\b(?:tells?|told|says?|is said)\b", re.I),
    "stand or lie for is": re.compile(r"\b(?:stands?|lies|lie|lay|stood)\b", re.I),
    "nobody, somebody, whoever": re.compile(r"\b(?:nobody|somebody|whoever|who else|everybody)\b", re.I),
    "anew, by now, besides": re.compile(r"\b(?:anew|by now|besides|so many|so long as|for good)\b"),
    "behind for after": re.compile(r"\bbehind (?:it|its|them|the|a|which)\b"),
    "a pronoun or conjunction first": re.compile(
        r"^(?:It|One|Those|These|They|Such|So|Of|As|Where|Who|Whether) ", re.M
    ),
    "lets go, goes on, puts in force": re.compile(
        r"\b(?:takes note|takes in|lets go|goes on|puts in force|holds against|held against)\b"
    ),
}
WORD = re.compile(r"[A-Za-z']+")
SENTENCE = re.compile(r"(?:[a-z]+,? ){3}[a-z]+")  # four plain words in a row: prose, and no pattern, path or SQL
GENERATED = re.compile(r"<!-- (?:drawn|measured): .*? -->\n.*?<!-- end -->", re.DOTALL)
SKIPPED = ("/golden/", "_pb2")
THIS = "scripts/prose.py"


@dataclass(frozen=True)
class Text:
    """A piece of prose: where it begins, its kind, and the words."""

    path: str
    line: int
    kind: str
    text: str

    def matches(self) -> list[str]:
        """Returns the name of the pattern for each match."""
        return [name for name, pattern in PATTERNS.items() for _ in pattern.finditer(self.text)]

    def words(self) -> int:
        """Counts the words."""
        return len(WORD.findall(self.text))


def files(*folders: str) -> list[str]:
    """Returns the tracked Python files and pages below the folders (all, if none is named), relative to the project."""
    listed = subprocess.run(["git", "ls-files", "--", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    return [
        name
        for name in listed.stdout.splitlines()
        if name.endswith((".py", ".md")) and name != THIS and not any(part in name for part in SKIPPED)
    ]


@cache
def texts(path: str) -> tuple[Text, ...]:
    """Returns the prose of one file."""
    source = (ROOT / path).read_text()
    return tuple(page(path, source) if path.endswith(".md") else code(path, source))


def hand_written(source: str) -> str:
    """Returns a page without its generated text; line numbers stay."""
    return GENERATED.sub(lambda match: "\n" * match[0].count("\n"), source)


def page(path: str, source: str) -> Iterator[Text]:
    """Yields the lines of a page, and the cells of its tables."""
    in_code = False
    for number, line in enumerate(hand_written(source).splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif line and not in_code and not line.startswith("    "):
            for cell in line.strip("| ").split(" | ") if line.startswith("|") else [line]:
                yield Text(path, number, "page", cell)


def code(path: str, source: str) -> Iterator[Text]:
    """Yields the prose of a module."""
    tree = ast.parse(source)
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    parts: set[int] = set()  # strings that belong to a docstring or to a larger string
    for node in ast.walk(tree):
        if isinstance(node, documented):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield Text(path, node.lineno, "name", node.name.removeprefix("test_").replace("_", " "))
            if doc := ast.get_docstring(node):
                parts.add(id(node.body[0].value))  # type: ignore[attr-defined]
                yield Text(path, getattr(node, "lineno", 1), "docstring", doc)
        elif isinstance(node, ast.JoinedStr):
            parts.update(id(part) for part in node.values)
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
            if SENTENCE.search(text):
                yield Text(path, node.lineno, "message", text)
        elif isinstance(node, ast.Constant) and id(node) not in parts and SENTENCE.search(str(node.value)):
            yield Text(path, node.lineno, "message", str(node.value))
    for number, line in enumerate(source.splitlines(), 1):
        if (at := line.find("# ")) >= 0 and not line[:at].strip().endswith(("'", '"')):
            yield Text(path, number, "comment", line[at + 2 :])


def rate(folder: str) -> tuple[int, int]:
    """Returns (matches, words) of a folder or file."""
    pieces = [text for path in files(folder) for text in texts(path)]
    return sum(len(text.matches()) for text in pieces), sum(text.words() for text in pieces)


def pages() -> dict[str, tuple[int, int]]:
    """Returns page: (hand-written words, generated words), counted as `wc -w` counts."""
    counts = {}
    for path in files("*.md"):
        source = (ROOT / path).read_text()
        own = len(hand_written(source).split())
        counts[path] = (own, len(source.split()) - own)
    return counts


def _added_since(revision: str) -> set[tuple[str, int]]:
    diff = subprocess.run(
        ["git", "diff", "-U0", revision, "--", "*.py", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    path, line, added = "", 0, set()
    for row in diff.splitlines():
        if row.startswith("+++ "):
            path = row[6:]
        elif row.startswith("@@"):
            line = int(re.search(r"\+(\d+)", row)[1])  # type: ignore[index]
        elif row.startswith("+"):
            added.add((path, line))
            line += 1
    return added


def _print_counts(paths: list[str]) -> None:
    words, hits, kinds, by_file = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for path in paths:
        top = "/".join(path.split("/")[:-1][:3]) or path
        for text in texts(path):
            words[top] += text.words()
            names = text.matches()
            hits[top] += len(names)
            by_file[path] += len(names)
            kinds.update(names)
    for top, count in sorted(words.items(), key=lambda pair: -hits[pair[0]]):
        print(f"{top:44} {count:>8,} words {hits[top]:>6,} matches {1000 * hits[top] / max(count, 1):6.1f} per 1,000")
    total = sum(words.values())
    print(f"{'all':44} {total:>8,} words {sum(hits.values()):>6,} matches", end=" ")
    print(f"{1000 * sum(hits.values()) / max(total, 1):6.1f} per 1,000")
    for name, count in kinds.most_common():
        print(f"{count:>8,}  {name}")
    for path, count in by_file.most_common(15):
        print(f"{count:>8,}  {path}")


def main() -> None:
    """Prints what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="FOLDER")
    parser.add_argument("--matches", action="store_true", help="print each match")
    parser.add_argument("--sample", type=int, metavar="N", help="print N sentences drawn at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=["docstring", "comment", "message", "name", "page"], default="docstring")
    parser.add_argument("--diff", metavar="REVISION", help="print matches in lines added since REVISION")
    parser.add_argument("--pages", action="store_true", help="print the words of each page")
    options = parser.parse_args()
    paths = files(*options.folders)
    if options.pages:
        counts = pages()
        for path, (own, drawn) in sorted(counts.items(), key=lambda pair: -sum(pair[1])):
            print(f"{own:>8,} {drawn:>8,}  {path}")
        own, drawn = (sum(column) for column in zip(*counts.values(), strict=True))
        print(f"{own:>8,} {drawn:>8,}  all: hand-written, generated")
    elif options.sample:
        pool = [text for path in paths for text in texts(path) if text.kind == options.kind]
        for text in random.Random(options.seed).sample(pool, min(options.sample, len(pool))):
            first = re.split(r"(?<=[.:])\s", " ".join(text.text.split()))[0]
            print(f"{text.path}:{text.line}\n    {first if options.kind == 'docstring' else text.text}")
    elif options.matches or options.diff:
        added = _added_since(options.diff) if options.diff else None
        for text in (text for path in paths for text in texts(path)):
            for line, row in enumerate(text.text.splitlines(), text.line):
                names = Text(text.path, line, text.kind, row).matches()
                if names and (added is None or (text.path, line) in added):
                    print(f"{text.path}:{line}: {row.strip()[:140]}    [{', '.join(names)}]")
    else:
        _print_counts(paths)


if __name__ == "__main__":
    main()
