"""`oncegate`, or `python -m oncegate`."""

import signal
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType

from oncegate.cli import app


class WithoutPandas(MetaPathFinder):
    """Lets this process be one where pandas is not installed: pyarrow imports it with its first array otherwise, which
    is a third of a start, and no verb has a use for it."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Nothing about other modules; raises ModuleNotFoundError for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError("this program does without pandas", name=name)
        return None


def end(number: int, frame: FrameType | None) -> None:
    """Ends a verb as an error does, so that what it has half made is taken back; the status is a shell's for it."""
    raise SystemExit(128 + number)


def main() -> None:
    """Run the command line; exit status 0 done, 1 refused, 2 misused, 128 and its number after a signal."""
    # Of a terminal that is closed too; `nohup` has that ignored. `serve` has handlers of its own.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)
    sys.meta_path.insert(0, WithoutPandas())
    try:
        app(prog_name="oncegate")
    except OSError as error:
        # Verbs tell their own; --install-completion writes into the home folder.
        sys.exit(f"oncegate: {error.filename or 'the system'}: {error.strerror or error}")


if __name__ == "__main__":
    main()
