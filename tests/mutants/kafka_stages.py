"""Planted bugs of rows that wait for their commit in memory, beside their topic."""

from tests.mutants.mutant import Mutant, one

_SHARD = "service/oncegate/ledgers/kafka/shard"
_TESTS = "tests/faults/kafka/test_stage_cache.py"

KAFKA_STAGES: tuple[Mutant, ...] = (
    one(
        "what waits is held before it is written",
        f"{_SHARD}/ledger.py",
        "            changes: list[Change] = []\n",
        "            changes: list[Change] = []\n"
        "            for one in (one for one in outputs if hasattr(one, 'data')):\n"
        "                self._place.stage_cache.put(self._place.name, one.range_id, one.data)\n",
        f"{_TESTS}::test_what_was_given_up_or_never_written_is_not_held",
    ),
    one(
        "what is held comes before what is read back",
        f"{_SHARD}/readback.py",
        "        for at in (*locations, None):\n",
        "        for at in (*sorted(locations, key=lambda at: self._cached(at) is None), None):\n",
        f"{_TESTS}::test_what_is_held_and_what_is_read_back_come_in_the_order_of_the_batch",
    ),
    one(
        "rows that were given up are held on",
        f"{_SHARD}/ledger.py",
        "        self._place.stage_cache.drop(self._place.name, locations)\n",
        "",
        f"{_TESTS}::test_what_was_given_up_or_never_written_is_not_held",
    ),
    one(
        "the cache has no bound",
        "service/oncegate/ledgers/kafka/rows/stage_cache.py",
        "        while self.held_bytes > self.bytes_max:\n",
        "        while not self._blobs:\n",
        f"{_TESTS}::test_the_oldest_go_first_and_what_is_larger_than_the_bound_is_not_held",
    ),
    one(
        "what is held of one ledger is told of another",
        "service/oncegate/ledgers/kafka/rows/stage_cache.py",
        "        return self._blobs.get((ledger, at))\n",
        "        return next((data for (_, place), data in self._blobs.items() if place == at), None)\n",
        f"{_TESTS}::test_ledgers_share_a_bound_and_each_has_its_own_bytes",
    ),
    one(
        "what was given up while stages were deleted is taken for deleted",
        "service/oncegate/ledgers/kafka/shard/ledger.py",
        "        self._stages_shortened_to = stages_to\n",
        "        self._stages_shortened_to = self._stages_to\n",
        "tests/faults/kafka/test_stages.py::"
        "test_a_stage_that_is_given_up_while_others_are_deleted_goes_with_the_next_deletion",
    ),
)
