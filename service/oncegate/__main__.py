"""`oncegate`, or `python -m oncegate`."""

from oncegate.cli import app


def main() -> None:
    """Run the command line; exit status 0 done, 1 refused, 2 misused."""
    app(prog_name="oncegate")


if __name__ == "__main__":
    main()
