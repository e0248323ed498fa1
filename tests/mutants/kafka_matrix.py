"""Planted bugs of a ledger on Kafka that the crash matrix sees, and of healing what brokers left open."""

from tests.mutants.mutant import Mutant, one

_KAFKA = "service/oncegate/ledgers/kafka"
_MATRIX = "tests/matrix/test_matrix.py::test_a_gateway_over_kafka_that_is_struck_loses_and_doubles_nothing"
_MARKERS = "tests/faults/kafka/test_lost_markers.py"

KAFKA_MATRIX: tuple[Mutant, ...] = (
    one(
        "a gateway sends EndTxn again whose answer is lost",
        f"{_KAFKA}/guard.py",
        "            if self._ends_sent > 1:\n",
        "            if self._ends_sent > 2:\n",
        f"{_MATRIX}[end-answer-lost-0]",
    ),
    one(
        "what brokers have committed stays open",
        f"{_KAFKA}/markers/healing.py",
        "            await self._brokers.write_commit_marker(one)\n",
        "            await self._brokers.refresh()\n",
        f"{_MARKERS}::test_an_opener_writes_the_markers_of_what_was_acknowledged",
    ),
    one(
        "what nobody knows any more is taken for committed",
        f"{_KAFKA}/markers/healing.py",
        "        if state.epoch > one.epoch + 1:\n",
        "        if state.epoch > one.epoch + 9:\n",
        f"{_MARKERS}::test_what_several_starts_have_hidden_is_told_and_never_served",
    ),
    one(
        "an owner goes on with a producer that has lost its broker",
        f"{_KAFKA}/shard/writer.py",
        "        if self._guard.is_worn:\n",
        "        if self._guard.closed:\n",
        f"{_MARKERS}::test_an_owner_writes_them_before_it_goes_on",
    ),
)
