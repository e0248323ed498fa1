"""Defines the errors of transactions and of starting a producer.

* NotWritten            nothing of it becomes visible, once the next producer of the same id has started
  - Fenced                a newer producer has this id; all later transactions fail too
  - Refused               all later transactions fail too until an operator acts
  - Throttled             a quota made the brokers too slow
  - RecordTooLarge        a batch exceeds a partition's size limit
* InDoubt               unknown whether it was committed
* NotStarted            the brokers refuse this producer
"""

from collections.abc import Sequence

from aiokafka.errors import KafkaError

from oncegate.ledgers.kafka.partition import Partition


class NotWritten(Exception):
    """The transaction was not committed: none of its records becomes visible.
    `culprits`: the partitions that refused it or did not answer.
    """

    def __init__(self, why: str, culprits: Sequence[Partition] = ()) -> None:
        super().__init__(why)
        self.culprits = tuple(culprits)


class Fenced(NotWritten):
    """Nothing was written, and later transactions fail too: a newer producer has this transactional id."""


class Refused(NotWritten):
    """Nothing was written, and later transactions fail too until an operator follows the text.

    A right is missing, or brokers and client do not trust each other. `culprits`: partitions whose topic lacks a right.
    """


class Throttled(NotWritten):
    """Nothing was written: a quota made the brokers too slow. Retriable; the text names the quota."""


class RecordTooLarge(NotWritten):
    """Nothing was written: a batch exceeds a partition's size limit, which the text names."""


class NotStarted(KafkaError):  # type: ignore[misc]
    """The brokers refuse this producer until an operator follows the text.

    An earlier transaction in doubt remains in doubt.
    """


class InDoubt(Exception):
    """The transaction may or may not be committed: start a producer with the same id, which ends it,
    then read the topic.
    """
