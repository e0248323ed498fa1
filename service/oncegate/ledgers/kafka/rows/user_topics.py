"""Checks users' Kafka topics: their partition counts, and whether they can be written now."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, NoReturn

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError, UnknownTopicOrPartitionError, for_code

from oncegate.clock import now_s
from oncegate.core.errors import BadRequest, LedgerFull, NotFound, ReadElsewhere, TooLarge
from oncegate.ledgers.kafka.compression import Compression
from oncegate.ledgers.kafka.record_batch import BATCH_BYTES
from oncegate.ledgers.kafka.refusals import Caller, refusal_of
from oncegate.ledgers.kafka.rows.contract import COLUMNS, check_schema, topics_in
from oncegate.ledgers.kafka.rows.marks import Identities
from oncegate.ledgers.kafka.rows.stream import check_rows, option_of
from oncegate.ledgers.kafka.topics import Admin, admin_of
from oncegate.ledgers.kafka.watch import DEFAULT_DEADLINES
from oncegate.ports import Origin

# Maximum age of a topic's metadata; Kafka's own clients use five minutes.
FRESH_S = 30.0
# Time without writes to a topic that refused a batch: each attempt fails a whole group of requests.
SUSPENDED_S = 5.0
# Assumed minimum write rate; a transaction that would time out at this rate is refused. Real brokers are faster.
BYTES_PER_SECOND_MIN = 32 << 20
# Minimum size of rows that are checked in a thread.
ASIDE_BYTES = 64 << 10
_NOTHING = "nothing was written"


class UserTopics:
    """Implements `ports.RowTopics` for a Kafka cluster. Connects at the first request; call `close` last.

    `brokers`: as users write them; `own_prefix`: of the gateway's own topics; `compression`: of batches in users'
    topics; `sending_ms`: maximum time for sending a transaction.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        brokers: str,
        own_prefix: str,
        compression: Compression = "none",
        sending_ms: int = DEFAULT_DEADLINES.sending_ms,
    ) -> None:
        self._settings = settings
        self._caller = Caller.of(settings)
        self._brokers = brokers
        self._own_prefix = own_prefix
        self.compression = compression
        self._sending_ms = sending_ms
        self._one = asyncio.Lock()
        self._identities = Identities(self._ids_of)
        self._admin: Admin | None = None
        self._connection = AsyncExitStack()
        self._asked: dict[str, float] = {}
        self._suspended: dict[str, tuple[float, str]] = {}
        # Partitions of each topic queried so far.
        self.counts: dict[str, int] = {}

    @property
    def where(self) -> str:
        return self._brokers

    async def check(
        self,
        topic: str,
        schema: Any,
        batches: Sequence[Any],
        origin: Origin | None = None,
        waiting_bytes: int = 0,
        identified: bool = False,
        waiting_topics: Sequence[str] = (),
    ) -> Mapping[str, bytes]:
        self._require_time(topic, waiting_bytes)
        size_bytes = sum(batch.nbytes for batch in batches)
        option = option_of(topic, schema)
        check_schema(schema, option)
        topics = [option] if option is not None else await _aside(size_bytes, topics_in, schema, batches)
        topics = list(dict.fromkeys((*topics, *waiting_topics)))
        await self.ask(topics)
        await _aside(size_bytes, check_rows, schema, batches, option, self.counts, origin)
        if not identified:
            return {}
        found = await self._identities.of(topics)
        if gone := [topic for topic in topics if topic not in found]:
            self.forget(gone)
            await self.ask(gone)
            raise LedgerFull(f"topics {', '.join(gone)} cannot be identified now; {_NOTHING}")
        return found

    @property
    def columns(self) -> Any:
        return COLUMNS

    def refuse_read(self, topic: str) -> NoReturn:
        raise ReadElsewhere(
            f"rows of topic {topic} lie in Kafka: read topic {topic} of {self._brokers} with isolation.level="
            "read_committed, or Spark's format('kafka') with kafka.isolation.level",
            brokers=self._brokers,
            topic=topic,
        )

    async def ask(self, topics: Collection[str]) -> None:
        """Refreshes missing metadata of topics, and metadata older than `FRESH_S`.

        Raises NotFound; BadRequest: the topic is the gateway's own or Kafka's; TooLarge: its size limit is below
        `BATCH_BYTES`; LedgerFull: it cannot be written now.
        """
        now = now_s()
        for topic in topics:
            self._require_users(topic)
            until, why = self._suspended.get(topic, (0.0, ""))
            if now < until:
                raise LedgerFull(f"topic {topic} cannot be written now ({why}); {_NOTHING}")
        async with self._one:
            due = [topic for topic in topics if self._asked.get(topic, 0.0) <= now]
            if due:
                await self._ask(due)

    def suspend(self, topics: Collection[str], why: str) -> None:
        """Refuses writes to topics for `SUSPENDED_S` after a refused batch, and expires their metadata."""
        until = now_s() + SUSPENDED_S
        for topic in topics:
            self._suspended[topic] = (until, why)
            self._asked.pop(topic, None)

    def forget(self, topics: Collection[str]) -> None:
        """Marks the metadata of topics as expired after their limits have changed."""
        for topic in topics:
            self._asked.pop(topic, None)

    async def close(self) -> None:
        async with self._one:
            await self._disconnect()

    def _require_time(self, topic: str, size_bytes: int) -> None:
        bytes_max = BYTES_PER_SECOND_MIN * self._sending_ms // 1000
        if size_bytes > bytes_max:
            raise TooLarge(
                f"a batch of {size_bytes} bytes for topic {topic} is one transaction, and one of at most {bytes_max} "
                f"bytes is begun, what {self._sending_ms} ms are enough for: write smaller batches (in Spark "
                f"maxOffsetsPerTrigger or maxBytesPerTrigger), or raise transaction_ms in the ledger's URL; {_NOTHING}"
            )

    def _require_users(self, topic: str) -> None:
        if topic.startswith((f"{self._own_prefix}.", "__")):
            raise BadRequest(f"topic {topic} is the gateway's own or Kafka's: take another name; {_NOTHING}")

    async def _ask(self, topics: Sequence[str]) -> None:
        try:
            admin = await self._connected()
            found = {one["topic"]: self._partitions(one) for one in await admin.describe_topics(list(topics))}
            await self._require_room(admin, topics)
        except (KafkaError, OSError) as error:
            await self._disconnect()
            why = refusal_of(error, self._caller) or repr(error)
            raise LedgerFull(f"topics {', '.join(topics)} cannot be asked about now ({why}); {_NOTHING}") from error
        self.counts.update(found)
        self._asked.update(dict.fromkeys(found, now_s() + FRESH_S))

    def _partitions(self, described: Mapping[str, Any]) -> int:
        """Returns a topic's partition count.

        Raises NotFound; TopicAuthorizationFailedError; LedgerFull: a partition has no leader.
        """
        topic, kind = described["topic"], for_code(described["error_code"])
        if kind is UnknownTopicOrPartitionError:
            raise NotFound(f"there is no Kafka topic {topic!r} at {self._brokers}: make it there; {_NOTHING}")
        if kind is TopicAuthorizationFailedError:
            raise kind(topic)
        partitions = described["partitions"]
        # An unavailable replica does not prevent writes.
        lost = [one["partition"] for one in partitions if one["leader"] < 0]
        if lost or not partitions:
            what = f"partitions {', '.join(map(str, lost))} have" if lost else "it has"
            raise LedgerFull(f"topic {topic} cannot be written now: {what} no leader; {_NOTHING}")
        return len(partitions)

    async def _require_room(self, admin: Admin, topics: Sequence[str]) -> None:
        """Raises TooLarge for a topic whose size limit is below `BATCH_BYTES`.

        Without the right to read its settings, the topic passes; the write then fails with the same error.
        """
        name = "max.message.bytes"
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic, {name: None}) for topic in topics]
        for answer in await admin.describe_configs(resources):
            for code, _, _, topic, values in answer.resources:
                sizes = [int(value) for key, value, *_ in values if key == name]
                if not code and sizes and sizes[0] < BATCH_BYTES:
                    raise TooLarge(
                        f"topic {topic} has {name}={sizes[0]}, and batches of up to {BATCH_BYTES} bytes are written: "
                        f"raise it; {_NOTHING}"
                    )

    async def _ids_of(self, topics: Collection[str]) -> Mapping[str, bytes]:
        """Requests the ids of topics from a broker. Raises LedgerFull: no broker answers."""
        async with self._one:
            try:
                found = await (await self._connected()).topic_ids(topics)
            except (KafkaError, OSError) as error:
                await self._disconnect()
                why = refusal_of(error, self._caller) or repr(error)
                named = ", ".join(topics)
                raise LedgerFull(f"topics {named} cannot be asked about now ({why}); {_NOTHING}") from error
        return found

    async def _connected(self) -> Admin:
        if self._admin is None:
            self._admin = await self._connection.enter_async_context(admin_of(self._settings))
        return self._admin

    async def _disconnect(self) -> None:
        self._admin = None
        with suppress(KafkaError, OSError):
            await self._connection.aclose()


async def _aside(size_bytes: int, function: Any, *args: Any) -> Any:
    return function(*args) if size_bytes < ASIDE_BYTES else await asyncio.to_thread(function, *args)
