"""Refuses new work while the gateway is drained: one list of calls for every transport.

What settles, commits, acks, renews, reads or describes passes, so that what is open comes to its end.
"""

from oncegate.core.errors import Stopping
from oncegate.engine.gateway import Gateway

DRAINED = "an operator has drained the gateway"
UNDO = "`oncegate drain --undo` or a restart"
# By the names of `access.rights.CALLS`: what grants, writes rows that no commit waits for, or makes something.
NEW_WORK = frozenset(
    {
        "claimIds",
        "takeIds",
        "produceRecords",
        "stageChunk",
        "registerProducer",
        "claimSequences",
        "registerDriver",
        "openLane",
        "importIds",
        "noteAction",
        "createTopic",
        "createNamespace",
        "deleteNamespace",
    }
)


def check(call: str, gateway: Gateway | None) -> None:
    """Refuses a call that begins something. Raises Stopping: nothing was written."""
    if gateway is not None and gateway.draining is not None and call in NEW_WORK:
        raise Stopping(f"{DRAINED}: it finishes what is open and begins nothing, until {UNDO}; nothing was written")
