"""The role that each call needs: one table for every transport.

The name of a call is its `operationId` in the OpenAPI document. Roles apply to the namespaces that a credential lists,
and no role includes another: an administrator cannot ack, and a writer cannot read rows.
"""

from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    """A role of a credential in its namespaces."""

    WRITE = "write"
    ACK = "ack"
    READ = "read"
    ADMIN = "admin"
    METRICS = "metrics"


@dataclass(frozen=True)
class Right:
    """The requirement of a call: one of `roles`, or without roles any valid credential, unless it is `public`.

    `everywhere`: the call concerns all namespaces, so the credential must list all of them.
    """

    roles: frozenset[Role] = frozenset()
    public: bool = False
    everywhere: bool = False


PUBLIC, KNOWN = Right(public=True), Right()
WRITE, ACK, READ, ADMIN = (Right(frozenset({role})) for role in (Role.WRITE, Role.ACK, Role.READ, Role.ADMIN))
# Properties of a namespace that a job needs before it writes, acks or reads.
ANY = Right(frozenset({Role.WRITE, Role.ACK, Role.READ, Role.ADMIN}))
# Operators look up the state that dead tasks left behind before they resolve it.
LOOK = Right(frozenset({Role.READ, Role.ADMIN}))
# The first write creates a topic too.
SETUP = Right(frozenset({Role.WRITE, Role.ADMIN}))
# Actions on the whole gateway.
OPERATE = Right(frozenset({Role.ADMIN}), everywhere=True)
SCRAPE = Right(frozenset({Role.METRICS}), everywhere=True)

CALLS: dict[str, Right] = {
    "claimIds": WRITE,
    "takeIds": WRITE,
    "renewClaim": WRITE,
    "completeClaim": WRITE,
    "releaseClaim": WRITE,
    "produceRecords": WRITE,
    "stageChunk": WRITE,
    "commitBatch": WRITE,
    "abortBatch": WRITE,
    "registerProducer": WRITE,
    "claimSequences": WRITE,
    "renewSequences": WRITE,
    "completeSequences": WRITE,
    "releaseSequences": WRITE,
    "closeProducer": WRITE,
    "openLane": WRITE,
    "askLane": WRITE,
    "registerDriver": ACK,
    "ackProducers": ACK,
    "fetchRecords": READ,
    "listTopics": READ,
    "lookUpIds": LOOK,
    "explainId": LOOK,
    "explainProducer": LOOK,
    "listProducers": LOOK,
    "listLeftClaims": LOOK,
    "getNamespace": ANY,
    "getTopic": ANY,
    "getSourceOffsets": ANY,
    "createTopic": SETUP,
    "createNamespace": ADMIN,
    "deleteNamespace": ADMIN,
    "resolveClaim": ADMIN,
    "resolveProducer": ADMIN,
    "forgetIds": ADMIN,
    "forgetIdSet": ADMIN,
    "importIds": ADMIN,
    "fenceProducer": ADMIN,
    "noteAction": ADMIN,
    "getAudit": ADMIN,
    "getGateway": OPERATE,
    "drainGateway": OPERATE,
    "listNamespaces": KNOWN,
    "getLimits": KNOWN,
    "getCapabilities": KNOWN,
    "getVersion": KNOWN,
    "getMetrics": SCRAPE,
    "getDocument": PUBLIC,
    "getConsole": PUBLIC,
    "getError": PUBLIC,
    "liveProbe": PUBLIC,
    "startupProbe": PUBLIC,
    "readyProbe": PUBLIC,
}
