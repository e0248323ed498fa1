"""`python -m tests.fuzz [NAME ...] [--examples N] [--seed S]`: damaged bytes for every reader; `make fuzz`.

NAME: part of a format's name. Prints the seed and a line for each format; exits with 1 if a reader failed, with the
smallest bytes that cause it. A read that lasts a minute ends the run with the stacks of all threads.
"""

import argparse
import faulthandler
import secrets
import sys
import traceback

from tests.fuzz.doors import opened
from tests.fuzz.formats import FORMATS, Format
from tests.fuzz.run import fuzzed

HANGS_S = 60


def main(arguments: list[str]) -> int:
    """Runs the chosen formats; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--examples", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    given = parser.parse_args(arguments)
    print(f"seed {given.seed}: the same one, by --seed, reads the same bytes", flush=True)
    with opened() as doors:
        wanted = [one for one in (*FORMATS, *doors) if not given.names or any(name in one.name for name in given.names)]
        stumbled = sum(not _read(one, given.examples, given.seed) for one in wanted)
    if not wanted:
        print(f"there is no format {given.names}; there are {[one.name for one in (*FORMATS, *doors)]}")
    return 1 if stumbled or not wanted else 0


def _read(one: Format, examples: int, seed: int) -> bool:
    faulthandler.dump_traceback_later(HANGS_S + examples // 10, exit=True, file=sys.__stderr__)
    try:
        fuzzed(one, examples, seed)
    except Exception:
        traceback.print_exc()
        print(f"{one.name}: STUMBLED", flush=True)
        return False
    finally:
        faulthandler.cancel_dump_traceback_later()
    print(f"{one.name}: {examples} read or refused", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
