"""Entry point of `oncegate` and `python -m oncegate`."""

import os
import signal
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType

from oncegate.cli import app


class WithoutPandas(MetaPathFinder):
    """Makes pandas appear uninstalled. Otherwise pyarrow imports it with its first array, a third of the start-up time,
    unused.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Blocks the import of pandas; returns None for other modules. Raises ModuleNotFoundError for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError("this program does without pandas", name=name)
        return None


def end(number: int, frame: FrameType | None) -> None:
    """Ends a verb on a signal like an error, so that partial results are removed; the exit status is 128 plus the
    signal.
    """
    raise SystemExit(128 + number)


def main() -> None:
    """Runs the command line. Exit status: 0 success, 1 refused, 2 wrong usage, 128 plus the number of a signal."""
    # Also when a terminal is closed; under `nohup` that signal stays ignored. `serve` has handlers of its own.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)
    sys.meta_path.insert(0, WithoutPandas())
    for name in ("stdout", "stderr"):
        # Python has no stream for a descriptor that the caller closed (`>&-`).
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 -- open until the process ends
    try:
        try:
            app(prog_name="oncegate")
        finally:
            # Python buffers what it writes to a pipe or a file, so most write errors occur here.
            sys.stdout.flush()
    except OSError as error:
        # Verbs report their own errors; --install-completion writes into the home folder. The interpreter flushes
        # stdout again at exit, and would report a write error a second time.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(128 + signal.SIGPIPE)
        sys.exit(f"oncegate: {error.filename or 'the system'}: {error.strerror or error}")


if __name__ == "__main__":
    main()
