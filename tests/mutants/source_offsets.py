"""More planted bugs: the offsets at which a job's source continues; see `planted`."""

from tests.mutants.edits import delete, replace
from tests.mutants.mutant import Mutant, one

_INDEX = "tests/index/test_source_offsets.py"
_ENGINE = "tests/engine/usecases/test_source_offsets.py"
_CLIENT = "tests/client/spark/test_committed_offsets.py"

SOURCE_OFFSETS: tuple[Mutant, ...] = (
    one(
        "an older position stays although the newest batch has none",
        "oncegate.index.source_offsets::SourceOffsets._set",
        replace("key in self._recorded", "key in self._recorded and offsets"),
        f"{_INDEX}::test_an_entry_that_brings_none_makes_it_unknown",
    ),
    one(
        "a forgotten position stays forgotten when its entry is undone",
        "oncegate.index.source_offsets::SourceOffsets._set",
        replace("gone.append((oldest, self._take(oldest)))", "self._take(oldest)"),
        f"{_INDEX}::test_source_offsets_forgotten_for_an_undone_entry_are_known_again",
    ),
    one(
        "compacted without where sources go on",
        "oncegate.index.shard::ShardIndex._in_order",
        replace("offsets.snapshot", "list"),
        f"{_ENGINE}::test_it_is_known_after_a_restart_and_a_compaction",
    ),
    one(
        "a source's position is reported before it is durable",
        "oncegate.engine.usecases.batches::Batches.source_offsets",
        delete("await self.journal.group_commit.durable(...)"),
        f"{_ENGINE}::test_source_offsets_are_returned_once_their_batch_is_durable_and_never_for_a_refused_batch",
    ),
    one(
        "an ack that only moves its source is none",
        "oncegate.engine.usecases.drivers::Drivers.ack",
        replace("is_news or self._moves_source(request)", "is_news"),
        f"{_ENGINE}::test_an_ack_records_source_offsets_for_its_driver_even_without_other_news",
    ),
    one(
        "a refused part sets its source back",
        "oncegate_spark.spark.acks::_ack",
        replace(
            "replace(noted, upto=upto, is_scoped=is_scoped, topic=None, source_offsets=None)",
            "replace(noted, upto=upto, is_scoped=is_scoped)",
        ),
        f"{_CLIENT}::test_a_partly_refused_ack_is_reported_and_its_next_attempt_does_not_set_others_back",
    ),
    one(
        "an older batch sets its source back",
        "oncegate_spark.spark.acks::_parts_acked",
        delete("source = (None, None)"),
        f"{_CLIENT}::test_an_ack_of_a_batch_that_a_later_one_has_followed_does_not_set_them_back",
    ),
    one(
        "another batch's place",
        "oncegate_spark.spark.acks::ack_part",
        replace(
            "source_input if source_input is not None and source_input.number == batch_number(task) else None",
            "source_input",
        ),
        f"{_CLIENT}::test_inside_foreach_batch_they_are_those_that_it_has_noted",
    ),
    one(
        "the first of several sources",
        "oncegate_spark.spark.committed_offsets::committed_offsets",
        replace("len(sources) != 1", "not sources"),
        f"{_CLIENT}::test_inputs_other_than_one_kafka_source_are_refused",
    ),
)
