"""Says what a gateway needs of its brokers, from its ledger's URL and the names of its namespaces; asks nobody."""

from collections.abc import Sequence
from dataclasses import dataclass

from oncegate.core.errors import BadRequest
from oncegate.ledgers.kafka.address import Address
from oncegate.ledgers.kafka.namespaces import (
    DIRECT_PARTITIONS,
    KafkaNamespace,
    direct_topic,
    lane_ids,
    list_topic,
    topic_names,
    topics_of_name,
)
from oncegate.ledgers.kafka.topics import COMPACTED, KEPT, Wanted, wanted

TOPIC, TRANSACTIONAL_ID = "topic", "transactional-id"


@dataclass(frozen=True, slots=True)
class Right:
    """Names rights on all of a kind whose names begin with `name`, or on that one alone if `alone`.

    `operations`: as Kafka's tools call them.
    """

    kind: str
    name: str
    operations: tuple[str, ...]
    alone: bool = False

    def covers(self, name: str) -> bool:
        """Tells whether something of this name is meant."""
        return name == self.name if self.alone else name.startswith(self.name)


@dataclass(frozen=True, slots=True)
class TransactionalId:
    """Names transactional ids of one use: `first`, and all that begin with `prefix`; None: no other."""

    use: str
    first: str
    prefix: str | None = None


@dataclass(frozen=True, slots=True)
class Needs:
    """Holds all that a gateway needs; `principal`: whom rights are given to.

    `writer`: who writes into Kafka past the gateway, and `writers_rights` what he needs for that; None: nobody does.
    """

    principal: str
    topics: tuple[Wanted, ...]
    rights: tuple[Right, ...]
    # Of users, which they make: rows go there.
    users_topics: tuple[str, ...]
    ids: tuple[TransactionalId, ...]
    writer: str | None = None
    writers_rights: tuple[Right, ...] = ()


def needs_of(
    address: Address,
    namespaces: Sequence[str],
    principal: str | None,
    users_topics: Sequence[str] = (),
    writer: str | None = None,
) -> Needs:
    """Says what the gateway at this address needs for namespaces that are new, and to write rows into users' topics.

    BadRequest: no principal is known.
    """
    topics = wanted(address, [list_topic(address.prefix)], COMPACTED)
    ids = [TransactionalId("the list of namespaces", list_topic(address.prefix))]
    for namespace in namespaces:
        one = KafkaNamespace(b"", topics_of_name(address.prefix, namespace), b"")
        topics += wanted(address, topic_names(one), KEPT)
        topics += wanted(address, [direct_topic(one)], KEPT, DIRECT_PARTITIONS)
        ids.append(TransactionalId(f"namespace {namespace}, a number an opening", f"{one.name}/1", f"{one.name}/"))
    begin = f"{address.prefix}."
    rights = (
        # Delete is the right to shorten, by DeleteRecords.
        Right(TOPIC, begin, ("Describe", "DescribeConfigs", "Read", "Write", "Delete")),
        Right(TRANSACTIONAL_ID, begin, ("Describe", "Write")),
        *(Right(TOPIC, topic, ("Describe", "DescribeConfigs", "Write"), alone=True) for topic in users_topics),
    )
    given = () if writer is None else _of_writers(address, namespaces, users_topics)
    whom = principal or principal_of(address)
    return Needs(whom, tuple(topics), rights, tuple(users_topics), tuple(ids), writer, given)


def _of_writers(address: Address, namespaces: Sequence[str], users_topics: Sequence[str]) -> tuple[Right, ...]:
    """The rights of clients that write their rows themselves, and of nothing else of a ledger's."""
    rights = []
    for namespace in namespaces:
        one = KafkaNamespace(b"", topics_of_name(address.prefix, namespace), b"")
        rights.append(Right(TRANSACTIONAL_ID, lane_ids(one), ("Describe", "Write")))
        rights.append(Right(TOPIC, direct_topic(one), ("Describe", "Write"), alone=True))
    return (*rights, *(Right(TOPIC, topic, ("Describe", "Write"), alone=True) for topic in users_topics))


def principal_of(address: Address) -> str:
    """Returns whom the brokers take a client of this address for; BadRequest: they name it by their own rules."""
    if address.security.username is not None:
        return f"User:{address.security.username}"
    if address.security.certfile is not None:
        raise BadRequest(
            "brokers name who has a certificate by ssl.principal.mapping.rules: give the name as --principal"
        )
    return "User:ANONYMOUS"
