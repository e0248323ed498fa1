"""The ways to run the walk of owners of a ledger on Kafka."""

from tests.model.kafka.world import Setup

SETUPS = {
    "owners": Setup(),
    "owners, faults": Setup(losing=0.15, dying=0.01, starting=0.02),
    "owners, sleepers": Setup(sleeping=0.08, starting=0.02),
    "owners, without faults": Setup(losing=0.0, dying=0.0),
    "owners, partitions without leaders": Setup(leaderless=0.03, losing=0.1),
}
