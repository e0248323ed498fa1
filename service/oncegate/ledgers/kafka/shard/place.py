"""Names the topics and settings of one namespace's ledger on Kafka."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oncegate.ledgers.kafka.namespaces import KafkaNamespace, topic_names
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.rows.stream import StageCache
from oncegate.ledgers.kafka.watch import Deadlines
from oncegate.ledgers.keys import Keys


@dataclass(frozen=True, slots=True)
class KafkaPlace:
    """Names one ledger. `listed`: its namespace in the list; `settings`: arguments of clients of its brokers.

    `stage_cache`: of all ledgers of the process.
    """

    namespace: str
    listed: KafkaNamespace
    settings: Mapping[str, Any]
    deadlines: Deadlines
    keys: Keys
    stage_cache: StageCache = field(default_factory=StageCache)

    @property
    def name(self) -> str:
        """What generations and witnesses are listed under, and transactional ids begin with."""
        return self.listed.name

    @property
    def frames(self) -> Partition:
        """The ledger itself: frames."""
        return self.partitions[0]

    @property
    def where(self) -> str:
        """Names the topic of its frames."""
        return self.frames.topic

    @property
    def states(self) -> Partition:
        """What stands in place of compacted entries."""
        return self.partitions[1]

    @property
    def outputs(self) -> Partition:
        """What is published as it is written: archives of ids."""
        return self.partitions[2]

    @property
    def stages(self) -> Partition:
        """Rows that wait for the commit of their batch."""
        return self.partitions[3]

    @property
    def told_by_frames(self) -> tuple[Partition, Partition]:
        """Those whose records frames name one by one: by the number of their topic in locations."""
        return self.outputs, self.stages

    @property
    def partitions(self) -> tuple[Partition, Partition, Partition, Partition]:
        """All of them."""
        frames, states, outputs, stages = topic_names(self.listed)
        return Partition(frames, 0), Partition(states, 0), Partition(outputs, 0), Partition(stages, 0)
