"""Names the role that each call needs: the one table, by the call's name, for every transport.

A call's name is the `operationId` of the OpenAPI document. Roles hold in the namespaces that a credential names, and
none includes another: who administers a namespace cannot ack in it, who writes cannot read its rows.
"""

from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    """What a credential may do in its namespaces."""

    WRITE = "write"
    ACK = "ack"
    READ = "read"
    ADMIN = "admin"
    METRICS = "metrics"


@dataclass(frozen=True)
class Right:
    """What a call needs: one of `roles`; none of them: any valid credential, unless it is `public`.

    `everywhere`: it is about all namespaces, so the credential must name all of them.
    """

    roles: frozenset[Role] = frozenset()
    public: bool = False
    everywhere: bool = False


PUBLIC, KNOWN = Right(public=True), Right()
WRITE, ACK, READ, ADMIN = (Right(frozenset({role})) for role in (Role.WRITE, Role.ACK, Role.READ, Role.ADMIN))
# What a job has to know of its namespace before it writes, acks or reads.
ANY = Right(frozenset({Role.WRITE, Role.ACK, Role.READ, Role.ADMIN}))
# An operator clears what dead tasks have left, and looks up how it stands.
LOOK = Right(frozenset({Role.READ, Role.ADMIN}))
# A topic is also made by its first write.
SETUP = Right(frozenset({Role.WRITE, Role.ADMIN}))
# What is the gateway's, and not one namespace's.
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
