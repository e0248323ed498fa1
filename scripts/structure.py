"""Prints the measures of the code's structure: sizes, folders, private reads, and the files on the way of one claim.

    python scripts/structure.py [--large | --walk]

`--large` prints only the files, functions and folders above the usual sizes: signals to look at, not limits. Keep code
that is read together in one file.

`--walk` starts a gateway on a log ledger in a temporary folder, sends one `ids:claim` of two ids over HTTP, and counts
the calls, the files and the changes of file from the socket to the disk and back, threads included.
"""

import ast
import itertools
import statistics
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SERVICE = ROOT / "service" / "oncegate"
GENERATED = "generated"
FILE_LINES, FUNCTION_LINES, FOLDER_FILES = 400, 50, 13


def files_of(folder: str) -> list[Path]:
    """The Python files below a folder, but for those whose first line says that they are generated."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    return [path for path in paths if GENERATED not in path.read_text()[:120].lower()]


def functions_of(path: Path) -> Iterator[tuple[str, int]]:
    """The name and the lines of each function, without its docstring."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            said = ast.get_docstring(node, clean=False)
            lines = (node.end_lineno or 0) - node.lineno + 1
            yield node.name, lines - ((first.end_lineno or 0) - first.lineno + 1 if said is not None else 0)


def private_reads(path: Path) -> int:
    """How many lines read a private member of something that is neither self nor cls."""
    lines = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            owner = node.value
            if not (isinstance(owner, ast.Name) and owner.id in ("self", "cls")):
                lines.add(node.lineno)
    return len(lines)


def spread(values: list[int]) -> str:
    """Median, 90th percentile and largest of some numbers."""
    if not values:
        return "-"
    ninth = sorted(values)[min(len(values) - 1, int(0.9 * len(values)))]
    return f"{statistics.median(values):.0f} / {ninth} / {max(values)}"


def sizes(folder: str) -> str:
    """One row: files, lines, and how long files and functions are."""
    paths = files_of(folder)
    lines = [len(path.read_text().splitlines()) for path in paths]
    functions = [size for path in paths for _, size in functions_of(path)]
    private = sum(private_reads(path) for path in paths)
    return (
        f"{folder:14} {len(paths):5} files {sum(lines):6} lines   a file {spread(lines):16} "
        f"{len(functions):5} functions, {spread(functions):12}  private reads {private}"
    )


def fullest_folders(folder: str) -> list[tuple[int, str]]:
    """How many modules each package holds, the fullest first; `__init__` does not count."""
    packages = {path.parent for path in (ROOT / folder).rglob("*.py")}
    counts = [
        (sum(p.name != "__init__.py" for p in package.glob("*.py")), str(package.relative_to(ROOT)))
        for package in packages
    ]
    return sorted(counts, reverse=True)


def large() -> Iterator[str]:
    """Yields one line for each file, function or folder above the usual size."""
    for folder in ("service", "spark_client", "demo", "bench", "scripts", "tests"):
        for path in files_of(folder):
            name = path.relative_to(ROOT)
            if (lines := len(path.read_text().splitlines())) > FILE_LINES:
                yield f"{name}: {lines} lines"
            yield from (f"{name}: {function} has {n} lines" for function, n in functions_of(path) if n > FUNCTION_LINES)
    for folder in ("service", "spark_client"):
        yield from (f"{name}: {n} files" for n, name in fullest_folders(folder) if n > FOLDER_FILES)


class Walk:
    """Counts the calls into the service's files, once `counting` is set; a profile function of threads."""

    def __init__(self) -> None:
        self.counting = False
        self.calls: list[str] = []

    def __call__(self, frame: Any, event: str, _arg: object) -> None:
        """Note one call."""
        if self.counting and event == "call" and frame.f_code.co_filename.startswith(str(SERVICE)):
            self.calls.append(frame.f_code.co_filename.removeprefix(f"{SERVICE}/"))


def walk_of_one_claim() -> list[str]:
    """The file of each call that one claim makes, in order."""
    from oncegate.testing import LocalGateway
    from oncegate_spark import Gateway

    walk = Walk()
    threading.setprofile(walk)
    with LocalGateway() as local, Gateway(local.url) as gateway:
        gateway.attempt().claim(["warm", "up"])
        walk.counting = True
        gateway.attempt().claim(["a", "b"])
        walk.counting = False
    threading.setprofile(None)
    return walk.calls


def main() -> None:
    """Print everything, or what is asked for."""
    if "--large" in sys.argv[1:]:
        print("\n".join(large()))
        return
    for folder in ("service", "spark_client", "tests", "bench", "demo"):
        print(sizes(folder))
    for folder in ("service", "spark_client"):
        print(f"fullest folders of {folder}:", ", ".join(f"{n} {name}" for n, name in fullest_folders(folder)[:6]))
    if "--walk" in sys.argv[1:]:
        calls = walk_of_one_claim()
        changes = sum(call != before for before, call in itertools.pairwise(calls))
        print(f"one claim: {len(calls)} calls, {len(set(calls))} files, {changes} changes of file")
        print(" > ".join(dict.fromkeys(calls)))


if __name__ == "__main__":
    main()
