"""The project's own files, as tests about its shape see them."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = {"_generated_verdicts.py", "gateway_pb2.py"}
# What stands in a working folder and is nobody's source.
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
    """Every Python file below these folders that a person wrote."""
    return [p for folder in folders for p in sorted((ROOT / folder).rglob("*.py")) if p.name not in GENERATED]


def name_of(path: Path) -> str:
    """A path as a test's id."""
    return str(path.relative_to(ROOT))


def git(*arguments: str) -> list[str] | None:
    """The lines git prints, whoever owns the folder; None where there is no git, or no history."""
    try:
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return done.stdout.splitlines() if done.returncode == 0 else None


def has_history() -> bool:
    """Whether ROOT is the top of a git repository, not a folder inside another one."""
    return git("rev-parse", "--show-prefix") == [""]


def tracked() -> list[Path]:
    """The files of the project: what git tracks and is still there, or without history all that nothing has made."""
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
