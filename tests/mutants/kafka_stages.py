"""Planted bugs of staged rows, held in memory and in their topic."""

from tests.mutants.edits import delete, insert, replace, replace_statement
from tests.mutants.mutant import Mutant, one

_TESTS = "tests/faults/kafka/test_stage_cache.py"

KAFKA_STAGES: tuple[Mutant, ...] = (
    one(
        "what waits is held before it is written",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._append",
        insert(
            (
                "for one in (one for one in outputs if hasattr(one, 'data')):\n"
                "    self._place.stage_cache.put(self._place.name, one.range_id, one.data)"
            ),
            after="changes: list[CatalogChange] = []",
        ),
        f"{_TESTS}::test_dropped_or_unwritten_rows_are_not_cached",
    ),
    one(
        "stages in memory come before those read back",
        "oncegate.ledgers.kafka.shard.readback::Readback._found",
        replace("(*locations, None)", "(*sorted(locations, key=lambda at: self._cached(at) is None), None)"),
        f"{_TESTS}::test_cached_and_read_back_rows_come_in_the_order_of_the_batch",
    ),
    one(
        "rows that were given up are held on",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._given_up",
        delete("self._place.stage_cache.drop(...)"),
        f"{_TESTS}::test_dropped_or_unwritten_rows_are_not_cached",
    ),
    one(
        "the cache has no bound",
        "oncegate.ledgers.kafka.rows.stream::StageCache.put",
        replace("self.held_bytes > self.bytes_max", "not self._blobs"),
        f"{_TESTS}::test_the_oldest_go_first_and_what_is_larger_than_the_bound_is_not_held",
    ),
    one(
        "stages in memory of one ledger are reported for another",
        "oncegate.ledgers.kafka.rows.stream::StageCache.get",
        replace(
            "self._blobs.get((ledger, at))",
            "next((data for (_, place), data in self._blobs.items() if place == at), None)",
        ),
        f"{_TESTS}::test_ledgers_share_a_bound_and_each_has_its_own_bytes",
    ),
    one(
        "stages whose deletion was given up are taken for deleted",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._shorten_stages",
        replace_statement("self._stages_shortened_to = stages_to", "self._stages_shortened_to = self._stages_to"),
        "tests/faults/kafka/test_stages.py::"
        "test_a_stage_that_is_given_up_while_others_are_deleted_goes_with_the_next_deletion",
    ),
)
