"""The files of the project, for tests about its structure."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = {"_generated_verdicts.py", "gateway_pb2.py"}
# Generated content of a working folder.
MADE = {
    ".git",
    ".venv",
    ".venv.before",
    "out",
    "build",
    "dist",
    "__pycache__",
    "spark-warehouse",
    "metastore_db",
    "data",
}


def sources(*folders: str) -> list[Path]:
    """Returns every handwritten Python file below these folders."""
    return [p for folder in folders for p in sorted((ROOT / folder).rglob("*.py")) if p.name not in GENERATED]


def name_of(path: Path) -> str:
    """Returns a path as a test id."""
    return str(path.relative_to(ROOT))


def git(*arguments: str) -> list[str] | None:
    """Returns git's output lines, regardless of the folder's owner. Returns None without git or a history."""
    try:
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return done.stdout.splitlines() if done.returncode == 0 else None


def has_history() -> bool:
    """Returns whether ROOT is the top of a git repository rather than a folder inside another one."""
    return git("rev-parse", "--show-prefix") == [""]


def tracked() -> list[Path]:
    """Returns the files that git tracks and that exist; without a history, all files that are not generated."""
    names = git("ls-files") if has_history() else None
    return sorted(_walk(ROOT)) if names is None else [path for name in names if (path := ROOT / name).exists()]


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name in MADE or path.name.endswith((".egg-info", "_cache")):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        elif path.is_file():
            yield path
