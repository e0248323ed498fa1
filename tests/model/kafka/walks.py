"""The setups of the walk of owners of a ledger on Kafka."""

from typing import Any

from tests.model.kafka.world import Setup

# Sleeps and lives are longer than a takeover.
STANDBYS: dict[str, Any] = {
    "standing_by": True,
    "sleeping": 0.004,
    "dying": 0.002,
    "starting": 0.003,
    "steps": 900,
    "step_s": 0.01,
}
SETUPS = {
    "owners": Setup(),
    "owners, faults": Setup(losing=0.15, dying=0.01, starting=0.02),
    "owners, sleepers": Setup(sleeping=0.08, starting=0.02),
    "owners, without faults": Setup(losing=0.0, dying=0.0),
    "owners, partitions without leaders": Setup(leaderless=0.03, losing=0.1),
    "owners, forgotten markers": Setup(forgetting=0.1, losing=0.1, sending=True),
    "senders, faults": Setup(losing=0.08, dying=0.005, starting=0.01, sending=True, steps=600),
    "senders, partitions without leaders": Setup(leaderless=0.03, losing=0.05, sending=True, steps=600),
    "standbys": Setup(**STANDBYS),
    "standbys, faults": Setup(losing=0.15, sending=True, **STANDBYS),
    "standbys, sleepers": Setup(losing=0.0, **STANDBYS | {"sleeping": 0.01}),
    "standbys, forgotten markers": Setup(losing=0.05, forgetting=0.1, sending=True, **STANDBYS),
}
