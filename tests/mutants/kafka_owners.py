"""Planted bugs of owners of a ledger on Kafka that walks of a model have found."""

from tests.mutants.mutant import Mutant, one

_SHARD = "service/oncegate/ledgers/kafka/shard"
_OWNERS = "tests/faults/kafka/test_ledger_ownership.py"

KAFKA_OWNERS: tuple[Mutant, ...] = (
    one(
        "an overtaken gateway takes the number of who came behind it",
        f"{_SHARD}/ownership.py",
        "        if taken.holder != self._holder:\n",
        "        if False:\n",
        f"{_OWNERS}::test_a_gateway_that_is_overtaken_while_it_takes_its_number_does_not_take_the_others",
    ),
    one(
        "records of a frame are counted by its batches",
        f"{_SHARD}/blobs.py",
        "        return sum(int(batch.encoded.record_count()) for batch in self.batches)\n",
        "        return len(self.batches)\n",
        f"{_OWNERS}::test_an_append_in_doubt_behind_a_frame_of_several_records_is_decided",
    ),
    one(
        "what a newer owner has deleted is told as damage",
        f"{_SHARD}/ledger.py",
        "        if followed:\n",
        "        if False:\n",
        f"{_OWNERS}::test_what_a_newer_owner_has_replaced_and_deleted_is_no_damage",
    ),
)
