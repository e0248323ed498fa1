"""More planted bugs: producers, acks and scopes in the API; see `planted`."""

from tests.mutants.edits import delete, replace, replace_statement, without
from tests.mutants.mutant import Mutant, one

HTTP = "service/oncegate/transports/http"
_ACKS = "tests/client/spark/test_acks.py"
_LANES = "tests/client/spark/test_sequenced.py"
_ACKS_HTTP = "tests/transports/http/test_acks.py"
_PRODUCERS = "tests/transports/http/test_producers.py"
_CLIENT = "tests/client/sync/test_producers.py"
_SOURCES = "tests/engine/usecases/test_source_ids.py"
_PLANS = "tests/client/spark/test_assign_sequences.py::test_whatever_may_split_or_shuffle_a_lane_is_refused"

LANES: tuple[Mutant, ...] = (
    one(
        "acked before the commit log",
        "oncegate_spark.spark.acks::send",
        replace(
            (
                "[(file, noted_file) for file, noted_file in _noted(folder) if (folder / 'commits' / str(noted_file.batch)).exists()]"
            ),
            "[(file, noted_file) for file, noted_file in _noted(folder)]",
        ),
        f"{_ACKS}::test_a_batch_is_acked_when_the_next_begins_and_its_commit_is_logged_and_never_before",
    ),
    one(
        "a driver's token for each ack",
        "oncegate_spark.spark.acks::token_of",
        replace("hashlib.sha256(f'oncegate driver {run}'.encode()).hexdigest()[:32]", "os.urandom(16).hex()"),
        f"{_ACKS}::test_an_older_run_that_still_acks_gets_an_error_and_disturbs_no_other",
    ),
    one(
        "a failed ack forgotten",
        "oncegate_spark.spark.acks::send",
        replace_statement("break", "left = None"),
        f"{_ACKS}::test_an_ack_that_finds_no_gateway_fails_no_batch_and_is_made_up_for",
    ),
    one(
        "a refused part forgotten",
        "oncegate_spark.spark.acks::_ack",
        replace("left if acked.refused else None", "None"),
        f"{_ACKS}::test_an_ack_refused_in_part_is_done_for_the_rest_and_reported",
    ),
    one(
        "a refused part keeps later batches from being acked",
        "oncegate_spark.spark.acks::send",
        replace_statement("if left != noted:\n    ...", "break"),
        f"{_ACKS}::test_a_leftover_of_a_dead_task_keeps_no_later_batch_from_being_acked",
    ),
    one(
        "a batch that was followed keeps its lanes",
        "oncegate_spark.spark.acks::_parts_acked",
        replace("driver.ack(noted.upto, None, *source)", "Acked({}, None)"),
        f"{_ACKS}::test_a_batch_that_a_later_one_has_followed_is_acked_without_its_ids",
    ),
    one(
        "an offset log written late",
        "oncegate_spark.spark.acks::check_batch",
        replace("read is not None and batch_id is not None and (read != batch_id)", "False"),
        f"{_ACKS}::test_where_the_offset_log_is_written_late_nothing_is_written_or_committed",
    ),
    one(
        "an acked batch taken for duplicates",
        "oncegate_spark.protocol.calls.attempt::AttemptCalls._check_batch",
        replace(
            ("verdicts is not None and self._scope is not None and (verdicts.stale == len(verdicts.data) > 0)"), "False"
        ),
        f"{_ACKS}::test_ids_of_a_batch_are_forgotten_with_its_ack_and_its_latecomers_fail",
    ),
    one(
        "busy taken for success",
        "oncegate_spark.spark.writers.sequenced::all_ours",
        replace("verdicts.unsettled", "False", nth=1),
        f"{_LANES}::test_a_task_that_must_wait_or_stop_never_reports_success",
    ),
    one(
        "a lane's rows never completed",
        "oncegate_spark.spark.writers.sequenced::LaneSettler._settle",
        delete("lane.producer.settle(claimed, 'complete')"),
        f"{_LANES}::test_a_retry_drops_what_is_written_and_writes_the_rest",
    ),
    one(
        "a lane vouched for before its first row",
        "oncegate_spark.spark.writers.sequenced::LaneSettler._settle",
        replace_statement(
            "claimed = lane.producer.claim(sequences, prev_sequence=lane.last)",
            (
                "before = sequences[0].as_py() - 1 if lane.last is None else lane.last\n"
                "claimed = lane.producer.claim(sequences, prev_sequence=before)"
            ),
        ),
        f"{_LANES}::test_between_two_claims_of_a_lane_the_last_one_seen_is_named_and_none_before_the_first",
    ),
    one(
        "a lane's order unlooked at",
        "oncegate_spark.spark.writers.sequenced::Lanes._ordered",
        replace(
            "not increasing(sequences) or (last is not None and sequences[0].as_py() <= last)",
            "not increasing(sequences)",
        ),
        f"{_LANES}::test_rows_out_of_order_fail_the_task_before_any_effect_of_their_batch",
    ),
    one(
        "lanes left to their leases",
        "oncegate_spark.spark.writers.sequenced::LaneSettler.close",
        delete("self._lanes.close()"),
        f"{_LANES}::test_rows_of_several_lanes_are_written_lane_by_lane_and_in_order",
    ),
    one(
        "a shuffle taken for a coalesce",
        "oncegate_spark.spark.assign_sequences::_is_coalesce",
        replace("name == 'Repartition' and (not plan.shuffle())", "name == 'Repartition'"),
        _PLANS,
    ),
    one(
        "a partition read in several tasks",
        "oncegate_spark.spark.assign_sequences::SPLITTING",
        without("'maxRecordsPerPartition'"),
        _PLANS,
    ),
    one(
        "a producer's lease waited for as a call",
        "oncegate_spark.protocol.effort::NEVER_SENT_AGAIN",
        without("'PRODUCER_BUSY'"),
        f"{_CLIENT}::test_who_waits_for_a_lease_that_does_not_move_on_gives_up_after_one_and_a_half",
    ),
    one(
        "the sequence before lost in a header",
        "oncegate.transports.http.routes.producers::_request_of_raw",
        replace("call.number('Oncegate-Prev-Sequence')", "None"),
        f"{_PRODUCERS}::test_a_gap_is_reported_in_every_encoding",
    ),
    one(
        "a batch lost in a header",
        "oncegate.transports.http.routes.claims::_request_of_raw",
        without("scope="),
        f"{_ACKS_HTTP}::test_ids_of_a_batch_are_stale_once_it_is_acked_in_every_encoding",
    ),
    one(
        "produced by sequence without the one before",
        "oncegate.transports.decode.sequences::of_rows",
        replace(
            "SequenceRequest(producer, epoch, token, call, found, asked.prev_sequence, sender=sender)",
            "SequenceRequest(producer, epoch, token, call, found, sender=sender)",
        ),
        f"{_PRODUCERS}::test_a_gap_is_reported_in_every_encoding",
    ),
    one(
        "rows of a topic that was made again are dropped as written",
        "oncegate.index.source_offsets::SourceIds.known",
        replace("SourceKnown.SAME if named[0] == source_id else SourceKnown.OTHER", "SourceKnown.SAME"),
        f"{_LANES}::test_rows_of_a_topic_that_was_made_again_are_refused_and_a_name_of_its_own_takes_them",
    ),
    one(
        "a producer from before sources were named is refused",
        "oncegate.index.source_offsets::SourceIds.known",
        replace("SourceKnown.FIRST", "SourceKnown.OTHER"),
        f"{_SOURCES}::test_a_producer_from_before_source_names_continues_and_gets_its_name",
    ),
    one(
        "sources are forgotten by a snapshot",
        "oncegate.index.shard::ShardIndex._in_order",
        replace("ids.restore", "bool"),
        f"{_SOURCES}::test_a_source_is_known_after_a_compaction_and_one_that_was_refused_is_not",
    ),
    one(
        "a source's offsets are reported before they are durable",
        "oncegate.engine.usecases.producers::Producers.register",
        replace(
            "max(producer.position, source_ids.position_of(self.journal, '', request.producer))", "producer.position"
        ),
        f"{_SOURCES}::test_a_source_is_recorded_before_it_is_answered",
    ),
    one(
        "a lane of write=direct has no source",
        "oncegate.engine.usecases.direct.lanes::DirectLanes.open",
        replace("named", "False", nth=2),
        f"{_SOURCES}::test_a_lane_knows_its_source_too",
    ),
    one(
        "first rows that another epoch has written are not returned",
        "oncegate_spark.protocol.packed::_ELSEWHERE",
        replace("_those('DUPLICATE') + _those('STALE')", "_those('STALE')"),
        f"{_LANES}::test_first_rows_that_another_epoch_has_written_are_counted_until_the_first_that_is_new",
    ),
)
