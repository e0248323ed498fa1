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
    """Location of one ledger. `listed`: its entry in the list of namespaces; `settings`: arguments of Kafka clients.

    `stage_cache`: shared by all ledgers of the process.
    """

    namespace: str
    listed: KafkaNamespace
    settings: Mapping[str, Any]
    deadlines: Deadlines
    keys: Keys
    stage_cache: StageCache = field(default_factory=StageCache)

    @property
    def name(self) -> str:
        """Returns the ledger's name in the list's keys g/ and w/.

        The name is also the prefix of the ledger's transactional ids.
        """
        return self.listed.name

    @property
    def frames(self) -> Partition:
        """Returns the partition of the frames, which are the ledger itself."""
        return self.partitions[0]

    @property
    def where(self) -> str:
        return self.frames.topic

    @property
    def states(self) -> Partition:
        """Returns the partition of the snapshots that replace compacted entries."""
        return self.partitions[1]

    @property
    def outputs(self) -> Partition:
        """Returns the partition for ranges that are published as they are written, namely archives of ids."""
        return self.partitions[2]

    @property
    def stages(self) -> Partition:
        """Returns the partition of rows whose batch is not committed yet."""
        return self.partitions[3]

    @property
    def told_by_frames(self) -> tuple[Partition, Partition]:
        """Returns the partitions with blobs that frames name, indexed by the topic number in a location."""
        return self.outputs, self.stages

    @property
    def partitions(self) -> tuple[Partition, Partition, Partition, Partition]:
        frames, states, outputs, stages = topic_names(self.listed)
        return Partition(frames, 0), Partition(states, 0), Partition(outputs, 0), Partition(stages, 0)
