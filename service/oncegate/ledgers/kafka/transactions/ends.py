"""Defines how a transaction fails, and why a producer cannot start.

* NotWritten            nothing of it is ever visible, once the next producer of the same id has started
  - Fenced                a newer producer has this id: nothing will be written any more
  - Refused               nothing will be written before an operator does what the text says
  - Throttled             a quota made the brokers too slow
  - RecordTooLarge        a partition does not take so much at once
* InDoubt               unknown whether it was committed
* NotStarted            the brokers refuse this producer
"""

from collections.abc import Sequence

from aiokafka.errors import KafkaError

from oncegate.ledgers.kafka.partition import Partition


class NotWritten(Exception):
    """Nothing of the transaction is ever visible; `culprits`: the partitions that refused it or did not answer."""

    def __init__(self, why: str, culprits: Sequence[Partition] = ()) -> None:
        super().__init__(why)
        self.culprits = tuple(culprits)


class Fenced(NotWritten):
    """Nothing was written, and nothing will be: a newer producer has this transactional id."""


class Refused(NotWritten):
    """Nothing was written, and nothing will be before an operator does what the text says.

    A right is missing, or brokers and client do not trust one another. `culprits`: where a topic's right is missing.
    """


class Throttled(NotWritten):
    """Nothing was written: a quota made the brokers too slow. A later try may pass; the text says what mends it."""


class RecordTooLarge(NotWritten):
    """Nothing was written: a partition does not take so much at once. The text says which limit; others take theirs."""


class NotStarted(KafkaError):  # type: ignore[misc]
    """The brokers refuse this producer until an operator does what the text says.

    An earlier transaction in doubt stays in doubt.
    """


class InDoubt(Exception):
    """Unknown whether the transaction was committed: a start under the same id ends it, then reading shows it."""
