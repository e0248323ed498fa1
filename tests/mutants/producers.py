"""The planted bugs of producers, drivers and batches: what an epoch, a watermark and an ack are for."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import ENGINE, INDEX

CORE = "service/oncegate/core"
_ACKING = "tests/engine/usecases/test_acks.py"
_ENGINE = "tests/engine/usecases/test_producers.py"
_DURABLE = "tests/engine/usecases/test_producers_durable.py"
_SCOPES = "tests/engine/usecases/test_batch_scopes.py"
_INDEX = "tests/index/producers/test_index.py"
_CELLS = "tests/index/producers/test_cells.py"

PRODUCERS: tuple[Mutant, ...] = (
    one(
        "executors ack",
        f"{CORE}/producers.py",
        "    Standing.OTHER_TOKEN: EntranceCell(\n        Entrance.REFUSE_NOT_DRIVER,",
        "    Standing.OTHER_TOKEN: EntranceCell(\n        Entrance.GO_ON,",
        f"{_ACKING}::test_an_executor_never_acks",
    ),
    one(
        "older epoch completes",
        f"{CORE}/producers.py",
        "    Standing.BELOW: _FENCED,",
        "    Standing.BELOW: _CURRENT,",
        f"{_ENGINE}::test_an_older_epoch_never_completes",
    ),
    one(
        "twins fence each other",
        f"{CORE}/producers.py",
        "        Registration.REFUSE_BUSY,",
        "        Registration.NEXT_EPOCH,",
        f"{_ENGINE}::test_a_live_lease_is_respected_and_the_answer_says_how_long",
    ),
    one(
        "late registration fences",
        f"{CORE}/producers.py",
        "_PAST = RegisterCell(\n    Registration.REFUSE_FENCED,",
        "_PAST = RegisterCell(\n    Registration.NEXT_EPOCH,",
        f"{_ENGINE}::test_a_late_copy_of_a_registration_does_not_fence_who_followed",
    ),
    one(
        "ack over what is open",
        f"{INDEX}/producers/store.py",
        "refused = [ACK[state].effect is AckEffect.REFUSE_NOT_DONE for state in SequenceState]",
        "refused = [False for _ in SequenceState]",
        f"{_ACKING}::test_a_part_that_is_refused_keeps_no_other_part_from_being_acked",
    ),
    one(
        "ack beyond what was claimed",
        f"{INDEX}/producers/index.py",
        "(reached is not None and sequence < reached):",
        "sequence:",
        f"{_ACKING}::test_an_ack_goes_no_further_than_what_was_claimed_and_never_back",
        _INDEX,
    ),
    one(
        "one part's way stands for all",
        f"{ENGINE}/usecases/drivers.py",
        "self._moves((name, sequence) for name, sequence, refused in parts if refused is None)",
        "self._moves((name, sequence) for name, sequence, _ in parts if parts[0][2] is None)",
        f"{_ACKING}::test_a_part_that_is_refused_keeps_no_other_part_from_being_acked",
    ),
    one(
        "forgets without a watermark",
        f"{INDEX}/producers/apply.py",
        "        producer.watermark, producer.intervals = watermark, producer.intervals.above(watermark)",
        "        producer.intervals = producer.intervals.above(watermark)",
        f"{_ACKING}::test_what_was_acked_is_stale_for_ever_also_after_a_restart",
        _INDEX,
    ),
    one(
        "stale before the ack is durable",
        f"{ENGINE}/usecases/producers.py",
        "        await self._journal.group_commit.durable(producer.position)\n        self.count(decision)\n        ret",
        "        self.count(decision)\n        ret",
        f"{_DURABLE}::test_stale_waits_for_the_ack_it_rests_on",
    ),
    one(
        "batch is over before its ack is durable",
        f"{ENGINE}/usecases/batch_scopes.py",
        "    await journal.group_commit.durable(driver.position)\n",
        "",
        f"{_DURABLE}::test_stale_waits_for_the_ack_it_rests_on",
    ),
    one(
        "epoch said before it is durable",
        f"{ENGINE}/usecases/producers.py",
        "        answer = self._answer(producer)\n        await self._journal.group_commit.durable(producer.position)\n",
        "        answer = self._answer(producer)\n",
        _DURABLE,
    ),
    one(
        "next epoch goes on with the calls before",
        f"{INDEX}/producers/apply.py",
        "        intervals=old.intervals.relabelled(_left(old.intervals.label)),",
        "        intervals=old.intervals,",
        f"{_INDEX}::test_an_older_epochs_open_claims_are_left_to_the_next",
        f"{_ENGINE}::test_an_older_epoch_never_completes",
    ),
    one(
        "a claim taken back leaves a trace",
        f"{INDEX}/producers/apply.py",
        "producer.calls, producer.intervals, producer.claimed_to, producer.last_call, producer.position = before\n",
        "producer.calls, producer.intervals, _, producer.last_call, producer.position = before\n",
        f"{_INDEX}::test_what_was_taken_back_leaves_no_trace",
    ),
    one(
        "late copy of a call that got nothing",
        f"{INDEX}/producers/decide.py",
        "is_repeat = call <= max(producer.last_call, producer.quiet_call)",
        "is_repeat = call <= producer.last_call",
        f"{_ENGINE}::test_a_late_copy_of_a_call_that_was_granted_nothing_is_granted_nothing",
    ),
    one(
        "gap against what is done",
        f"{INDEX}/producers/decide.py",
        "(producer.claimed_to is None or prev > producer.claimed_to)",
        "prev > producer.intervals.last[producer.intervals.label >> np.uint64(32) == OWN].max(initial=0)",
        f"{_CELLS}::test_a_gap_is_told_against_the_highest_that_was_claimed",
    ),
    one(
        "a hole is done with its neighbours",
        f"{INDEX}/producers/intervals.py",
        "    begins[1:] = (first[1:] != last[:-1] + _ONE) | (label[1:] != label[:-1])\n",
        "    begins[1:] = label[1:] != label[:-1]\n",
        "tests/index/producers/test_intervals.py",
        f"{_CELLS}::test_what_a_request_passes_over_is_out_of_order_later",
    ),
    one(
        "produced and left open",
        f"{ENGINE}/usecases/producers.py",
        "        return [claimed, SequencesCompleted(producer.number, producer.epoch, request.call, claimed.wall_ms)]",
        "        return [claimed]",
        f"{_DURABLE}::test_rows_with_sequences_are_written_once_whoever_sends_them",
    ),
    one(
        "ack of a batch forgets the next",
        f"{INDEX}/claims/batch_scopes.py",
        "        going = {batch for batch in known if batch < batches}",
        "        going = {batch for batch in known if batch <= batches}",
        f"{_SCOPES}::test_only_what_was_claimed_in_those_batches_is_forgotten",
    ),
    one(
        "ack over a batch's open claims",
        f"{ENGINE}/usecases/drivers.py",
        "        if ACK_BATCH[BatchState.OPEN].effect is not BatchEffect.HOLD_BACK:\n",
        "        if open_claims:\n",
        f"{_SCOPES}::test_a_batch_whose_claim_is_open_is_held_back_and_it_alone",
    ),
    one(
        "one part refused, none acked",
        f"{ENGINE}/usecases/drivers.py",
        "        moves = dict(self._moves((name, sequence) for name, sequence, refused in parts if refused is None))\n",
        "        passing = [] if any(part[2] for part in parts) else [part[:2] for part in parts]\n"
        "        moves = dict(self._moves(passing))\n",
        f"{_ACKING}::test_a_part_that_is_refused_keeps_no_other_part_from_being_acked",
    ),
    one(
        "an older batch passes",
        f"{ENGINE}/usecases/drivers.py",
        "        order = BatchOrder.OLDER if batches < driver.batches else order\n",
        "",
        f"{_ACKING}::test_an_ack_of_a_batch_before_the_last_is_refused_whole_and_told_that_one",
    ),
    one(
        "the batch acked last is an older one",
        f"{ENGINE}/usecases/drivers.py",
        "BatchOrder.OLDER if batches < driver.batches else order",
        "BatchOrder.OLDER if batches <= driver.batches else order",
        f"{_ACKING}::test_an_ack_of_a_batch_before_the_last_is_refused_whole_and_told_that_one",
    ),
    one(
        "what was held back is stale",
        f"{INDEX}/producers/store.py",
        "        return batch < self.batches and batch not in self.held_back\n",
        "        return batch < self.batches\n",
        f"{_SCOPES}::test_a_batch_whose_claim_is_open_is_held_back_and_it_alone",
    ),
    one(
        "a refused ack lets go of what was held back",
        f"{INDEX}/producers/apply.py",
        "        driver.batches, driver.held_back, driver.position = driver_before\n",
        "        driver.batches, _, driver.position = driver_before\n",
        f"{_SCOPES}::test_a_batch_that_is_held_back_is_so_after_a_restart_a_collection_and_a_refused_ack",
    ),
    one(
        "what was held back is never looked at again",
        f"{ENGINE}/usecases/drivers.py",
        " or (batches and held_back != driver.held_back):",
        ":",
        f"{_SCOPES}::test_a_batch_whose_claim_is_open_is_held_back_and_it_alone",
    ),
    one(
        "a refused part said before what it rests on is durable",
        f"{ENGINE}/usecases/drivers.py",
        "            await journal.group_commit.all_durable()\n",
        "            pass\n",
        f"{_DURABLE}::test_a_batch_that_is_held_back_waits_for_the_claim_that_holds_it",
    ),
    one(
        "another's row goes with a batch",
        f"{INDEX}/claims/batch_scopes.py",
        "rows[self._rows.used[rows] & (self._makers(rows) == made_by)]",
        "rows[self._rows.used[rows]]",
        f"{_SCOPES}::test_a_row_that_was_given_to_another_claim_is_left_alone",
    ),
    one(
        "batches forgotten by a collection",
        "service/oncegate/index/snapshot/pieces.py",
        "        self._claims.scopes.restore(scopes)\n",
        "",
        f"{_SCOPES}::test_a_collected_ledger_knows_which_batch_ids_are_of",
    ),
)
