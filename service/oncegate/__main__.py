"""`oncegate`, or `python -m oncegate`."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from oncegate.cli import app


class WithoutPandas(MetaPathFinder):
    """Lets this process be one where pandas is not installed: pyarrow imports it with its first array otherwise, which
    is a third of a start, and no verb has a use for it."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Nothing about other modules; raises ModuleNotFoundError for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError("this program does without pandas", name=name)
        return None


def main() -> None:
    """Run the command line; exit status 0 done, 1 refused, 2 misused."""
    sys.meta_path.insert(0, WithoutPandas())
    app(prog_name="oncegate")


if __name__ == "__main__":
    main()
