"""Adds up what the frames of a topic come to, and where they say that rows went."""

from oncegate.ledgers.fold import Fold as FramesFold
from oncegate.ledgers.frames import Sent
from oncegate.ledgers.kafka.markers.user_partitions import NewestPartitions
from oncegate.ledgers.kafka.partition import Partition


class Fold(FramesFold):
    """Holds what the frames so far have made. `where`: the topic of the ledger; offsets are those of first records."""

    def __init__(self, ledger: bytes, where: str) -> None:
        super().__init__(ledger, f"topic {where}")
        # Where rows of users were sent to, since somebody looked at what was left open there.
        self.sent_to = NewestPartitions()

    def take_sent(self, change: Sent) -> None:
        """Notes where rows of users were sent to."""
        self.sent_to.add([Partition(change.topic, change.partition)])
