"""Random walks over everything that can happen to messages about ids: `python -m tests.model SECONDS [SEED]`.

The walks of attempts that only claim come first. The walks with producers, jobs that take, and retirement
(tests.model.mixed) follow, then those of drivers and lanes of a source (tests.model.sequences), and last those of
owners of a ledger on Kafka (tests.model.kafka).
"""

import sys

import pytest

from tests.model.claims import walks as claims
from tests.model.kafka import walks as kafka
from tests.model.kafka.clients import replace_clients
from tests.model.kit.outcome import Walked, walk_for
from tests.model.mixed import walks as mixed
from tests.model.sequences import walks as sequences


def main() -> int:
    seconds, seed = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    failed = False
    setups: dict[str, Walked] = {**claims.SETUPS, **mixed.SETUPS, **sequences.SETUPS, **kafka.SETUPS}
    replace_clients(pytest.MonkeyPatch())
    for name, setup in setups.items():
        outcome = walk_for(setup, seconds / len(setups), seed)
        print(f"{name}, from seed {seed}: {outcome}", flush=True)
        print(outcome.explain(), end="", flush=True)
        failed = failed or bool(outcome.broken)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
