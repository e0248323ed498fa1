"""More planted bugs: producers, acks and scopes at the surface; see `planted`."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import CLIENT

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
        f"{CLIENT}/spark/acks.py",
        ' for file, found in _noted(folder) if (folder / "commits" / str(found.batch)).exists()]\n',
        " for file, found in _noted(folder)]\n",
        f"{_ACKS}::test_a_batch_is_acked_when_the_next_begins_and_its_commit_is_logged_and_never_before",
    ),
    one(
        "a driver's token for each ack",
        f"{CLIENT}/spark/acks.py",
        '    return hashlib.sha256(f"oncegate driver {run}".encode()).hexdigest()[:32]\n',
        "    return os.urandom(16).hex()\n",
        f"{_ACKS}::test_an_older_run_that_still_acks_is_told_so_and_disturbs_nobody",
    ),
    one(
        "a failed ack forgotten",
        f"{CLIENT}/spark/acks.py",
        '            log.warning("batch %d is not acked yet: %s", found.batch, error)\n            break\n',
        '            log.warning("batch %d is not acked yet: %s", found.batch, error)\n            left = None\n',
        f"{_ACKS}::test_an_ack_that_finds_no_gateway_fails_no_batch_and_is_made_up_for",
    ),
    one(
        "a refused part forgotten",
        f"{CLIENT}/spark/acks.py",
        "    return left if acked.refused else None\n",
        "    return None\n",
        f"{_ACKS}::test_of_an_ack_that_is_refused_in_part_the_rest_is_done_with_and_told",
    ),
    one(
        "a refused part keeps later batches from being acked",
        f"{CLIENT}/spark/acks.py",
        "        elif left != noted:\n            keep(file, left.encode())\n",
        "        else:\n            break\n",
        f"{_ACKS}::test_a_leftover_of_a_dead_task_keeps_no_later_batch_from_being_acked",
    ),
    one(
        "a batch that was followed keeps its lanes",
        f"{CLIENT}/spark/acks.py",
        "    return driver.ack(found.upto, None, *source)\n",
        "    return Acked({}, None)\n",
        f"{_ACKS}::test_a_batch_that_a_later_one_has_followed_is_acked_without_its_ids",
    ),
    one(
        "an offset log written late",
        f"{CLIENT}/spark/acks.py",
        "    if read is not None and batch_id is not None and read != batch_id:\n",
        "    if False:\n",
        f"{_ACKS}::test_where_the_offset_log_is_written_late_nothing_is_written_or_committed",
    ),
    one(
        "an acked batch taken for duplicates",
        f"{CLIENT}/protocol/calls/attempt.py",
        "        if verdicts is not None and self._scope is not None and verdicts.stale == len(verdicts.data) > 0:\n",
        "        if False:\n",
        f"{_ACKS}::test_ids_of_a_batch_are_forgotten_with_its_ack_and_its_latecomers_fail",
    ),
    one(
        "busy taken for success",
        f"{CLIENT}/spark/writers/sequenced.py",
        "    if verdicts.unsettled:\n",
        "    if False:\n",
        f"{_LANES}::test_a_task_that_is_told_to_wait_or_stop_never_reports_success",
    ),
    one(
        "a lane's rows never completed",
        f"{CLIENT}/spark/writers/sequenced.py",
        '            lane.producer.settle(claimed, "complete")\n',
        "",
        f"{_LANES}::test_a_retry_drops_what_is_written_and_writes_the_rest",
    ),
    one(
        "a lane vouched for before its first row",
        f"{CLIENT}/spark/writers/sequenced.py",
        "        claimed = lane.producer.claim(sequences, prev_sequence=lane.last)\n",
        "        before = sequences[0].as_py() - 1 if lane.last is None else lane.last\n"
        "        claimed = lane.producer.claim(sequences, prev_sequence=before)\n",
        f"{_LANES}::test_between_two_claims_of_a_lane_the_last_one_seen_is_named_and_none_before_the_first",
    ),
    one(
        "a lane's order unlooked at",
        f"{CLIENT}/spark/writers/sequenced.py",
        "        if not increasing(sequences) or (last is not None and sequences[0].as_py() <= last):\n",
        "        if not increasing(sequences):\n",
        f"{_LANES}::test_rows_out_of_order_fail_the_task_before_any_effect_of_their_batch",
    ),
    one(
        "lanes left to their leases",
        f"{CLIENT}/spark/writers/sequenced.py",
        "        self._holder.close()\n        self._lanes.close()\n",
        "        self._holder.close()\n",
        f"{_LANES}::test_rows_of_several_lanes_are_written_lane_by_lane_and_in_order",
    ),
    one(
        "a shuffle taken for a coalesce",
        f"{CLIENT}/spark/assign_sequences.py",
        '    return name == "Repartition" and not plan.shuffle()\n',
        '    return name == "Repartition"\n',
        _PLANS,
    ),
    one(
        "a partition read in several tasks",
        f"{CLIENT}/spark/assign_sequences.py",
        'SPLITTING = ("minPartitions", "maxRecordsPerPartition")\n',
        'SPLITTING = ("minPartitions",)\n',
        _PLANS,
    ),
    one(
        "a producer's lease waited for as a call",
        f"{CLIENT}/protocol/effort.py",
        'NEVER_SENT_AGAIN = frozenset({"MISSING_STAGE", "PRODUCER_BUSY"})\n',
        'NEVER_SENT_AGAIN = frozenset({"MISSING_STAGE"})\n',
        f"{_CLIENT}::test_who_waits_for_a_lease_that_does_not_move_on_gives_up_after_one_and_a_half",
    ),
    one(
        "the sequence before lost in a header",
        f"{HTTP}/routes/producers.py",
        '    prev, lease_ms = inbound.number("Oncegate-Prev-Sequence"), inbound.lease_ms\n',
        "    prev, lease_ms = None, inbound.lease_ms\n",
        f"{_PRODUCERS}::test_a_gap_is_told_in_every_encoding",
    ),
    one(
        "a batch lost in a header",
        f"{HTTP}/routes/claims.py",
        "        lease_ms=lease_ms,\n        scope=scope,\n",
        "        lease_ms=lease_ms,\n",
        f"{_ACKS_HTTP}::test_ids_of_a_batch_are_stale_once_it_is_acked_in_every_encoding",
    ),
    one(
        "produced by sequence without the one before",
        "service/oncegate/transports/decode/sequences.py",
        "    return SequenceRequest(producer, epoch, token, call, found, asked.prev_sequence)\n",
        "    return SequenceRequest(producer, epoch, token, call, found)\n",
        f"{_PRODUCERS}::test_a_gap_is_told_in_every_encoding",
    ),
    one(
        "rows of a topic that was made again are dropped as written",
        "service/oncegate/index/source_ids.py",
        "        return SourceKnown.SAME if named[0] == source_id else SourceKnown.OTHER\n",
        "        return SourceKnown.SAME\n",
        f"{_LANES}::test_rows_of_a_topic_that_was_made_again_are_refused_and_a_name_of_its_own_takes_them",
    ),
    one(
        "a producer from before sources were named is refused",
        "service/oncegate/index/source_ids.py",
        "            return SourceKnown.FIRST\n",
        "            return SourceKnown.OTHER\n",
        f"{_SOURCES}::test_a_producer_from_before_sources_were_named_goes_on_and_is_completed",
    ),
    one(
        "sources are forgotten by a snapshot",
        "service/oncegate/index/snapshot/pieces.py",
        "            if _SOURCE_IDS in self._whole:\n",
        "            if False:\n",
        f"{_SOURCES}::test_a_source_is_known_after_a_compaction_and_one_that_was_refused_is_not",
    ),
    one(
        "a source is told before it is durable",
        "service/oncegate/engine/usecases/producers.py",
        '        position = max(producer.position, source_ids.position_of(self._journal, "", request.producer))\n',
        "        position = producer.position\n",
        f"{_SOURCES}::test_a_source_is_recorded_before_it_is_told",
    ),
    one(
        "a lane of write=direct has no source",
        "service/oncegate/engine/usecases/direct/lanes.py",
        "        if named:\n            self._journal.group_commit.check()\n",
        "        if False:\n            self._journal.group_commit.check()\n",
        f"{_SOURCES}::test_a_lane_knows_its_source_too",
    ),
    one(
        "first rows that another epoch has written are not told",
        f"{CLIENT}/protocol/packed/verdicts.py",
        '_ELSEWHERE = _those("DUPLICATE") + _those("STALE")\n',
        '_ELSEWHERE = _those("STALE")\n',
        f"{_LANES}::test_first_rows_that_another_epoch_has_written_are_counted_until_the_first_that_is_new",
    ),
)
