"""Planted bugs of producers, drivers and batches: epochs, watermarks and acks."""

from tests.mutants.edits import cell, delete, insert, replace, replace_statement, shift, without
from tests.mutants.mutant import Mutant, one

_ACKING = "tests/engine/usecases/test_acks.py"
_LEFTOVERS = "tests/engine/usecases/test_leftovers.py"
_GAPS = "tests/engine/usecases/test_gaps.py"
_ENGINE = "tests/engine/usecases/test_producers.py"
_DURABLE = "tests/engine/usecases/test_producers_durable.py"
_SCOPES = "tests/engine/usecases/test_batch_scopes.py"
_INDEX = "tests/index/producers/test_index.py"
_WALK = "tests/model/sequences/test_walks.py::test_the_properties_hold_whatever_happens_to_messages_drivers_and_ledger"
_CELLS = "tests/index/producers/test_cells.py"

PRODUCERS: tuple[Mutant, ...] = (
    one(
        "executors ack",
        "oncegate.core.producers::DRIVER",
        replace("Entrance.REFUSE_NOT_DRIVER", "Entrance.GO_ON"),
        f"{_ACKING}::test_an_executor_never_acks",
    ),
    one(
        "older epoch completes",
        "oncegate.core.producers::PRODUCER",
        cell("Standing.BELOW", "_CURRENT"),
        f"{_ENGINE}::test_an_older_epoch_never_completes",
    ),
    one(
        "twins fence each other",
        "oncegate.core.producers::REGISTER_PRODUCER",
        replace("Registration.REFUSE_BUSY", "Registration.NEXT_EPOCH"),
        f"{_ENGINE}::test_a_live_lease_is_respected_and_the_answer_has_its_remaining_time",
    ),
    one(
        "late registration fences",
        "oncegate.core.producers::_PAST",
        replace("Registration.REFUSE_FENCED", "Registration.NEXT_EPOCH"),
        f"{_ENGINE}::test_a_late_copy_of_a_registration_does_not_fence_who_followed",
    ),
    one(
        "ack over what is open",
        "oncegate.index.producers.store::ProducerStore.__init__",
        replace(
            "[ACK[state].effect is AckEffect.REFUSE_NOT_DONE for state in SequenceState]",
            "[False for _ in SequenceState]",
        ),
        f"{_ACKING}::test_a_part_that_is_refused_keeps_no_other_part_from_being_acked",
    ),
    one(
        "ack beyond what was claimed",
        "oncegate.index.producers.store::ProducerState.watermark_after",
        replace("reached is not None and sequence < reached", "sequence"),
        f"{_ACKING}::test_an_ack_goes_no_further_than_what_was_claimed_and_never_back",
        _INDEX,
    ),
    Mutant(
        "the first part's refusal decides for all parts",
        (
            (
                "oncegate.engine.usecases.drivers::Drivers.ack",
                replace("(name, sequence, refused)", "(name, sequence, _)"),
            ),
            ("oncegate.engine.usecases.drivers::Drivers.ack", replace("refused is None", "parts[0][2] is None")),
        ),
        (f"{_ACKING}::test_a_part_that_is_refused_keeps_no_other_part_from_being_acked",),
    ),
    Mutant(
        "forgets without a watermark",
        (
            (
                "oncegate.index.producers.apply::_ack",
                replace("(producer.watermark, producer.intervals)", "producer.intervals"),
            ),
            (
                "oncegate.index.producers.apply::_ack",
                replace("(watermark, producer.intervals.above(watermark))", "producer.intervals.above(watermark)"),
            ),
        ),
        (
            f"{_ACKING}::test_acked_rows_are_stale_permanently_also_after_a_restart",
            _INDEX,
        ),
    ),
    one(
        "stale before the ack is durable",
        "oncegate.engine.usecases.producers::Producers.claim",
        delete("await self.journal.group_commit.durable(...)"),
        f"{_DURABLE}::test_stale_waits_for_the_ack_it_rests_on",
    ),
    one(
        "batch is over before its ack is durable",
        "oncegate.engine.usecases.batch_scopes::is_over",
        delete("await journal.group_commit.durable(...)"),
        f"{_DURABLE}::test_stale_waits_for_the_ack_it_rests_on",
    ),
    one(
        "epoch said before it is durable",
        "oncegate.engine.usecases.producers::Producers.register",
        delete("await self.journal.group_commit.durable(...)"),
        _DURABLE,
    ),
    one(
        "the next epoch continues the previous calls",
        "oncegate.index.producers.apply::_register",
        replace("old.intervals.relabelled(_left(old.intervals.label))", "old.intervals"),
        f"{_INDEX}::test_an_older_epochs_open_claims_are_left_to_the_next",
        f"{_ENGINE}::test_an_older_epoch_never_completes",
    ),
    one(
        "a claim taken back leaves a trace",
        "oncegate.index.producers.apply::_claim.undo",
        replace("producer.claimed_to", "_"),
        f"{_INDEX}::test_undone_changes_leave_no_trace",
    ),
    one(
        "late copy of a call that got nothing",
        "oncegate.index.producers.decide::decide",
        replace("max(producer.last_call, producer.quiet_call)", "producer.last_call"),
        f"{_ENGINE}::test_a_late_copy_of_a_call_that_was_granted_nothing_is_granted_nothing",
    ),
    one(
        "gap against what is done",
        "oncegate.index.producers.decide::_is_gap",
        replace(
            "claimed_to is None or prev > claimed_to",
            ("prev > producer.intervals.last[producer.intervals.label >> np.uint64(32) == OWN].max(initial=0)"),
        ),
        f"{_CELLS}::test_a_gap_is_measured_against_the_highest_claimed_sequence",
    ),
    one(
        "a hole is done with its neighbours",
        "oncegate.index.producers.intervals::_joined",
        replace("(first[1:] != last[:-1] + _ONE) | (label[1:] != label[:-1])", "label[1:] != label[:-1]"),
        "tests/index/producers/test_intervals.py",
        f"{_CELLS}::test_sequences_skipped_by_a_request_are_out_of_order_later",
    ),
    one(
        "produced and left open",
        "oncegate.engine.usecases.producers::Producers.written",
        without("SequencesCompleted(producer.number, producer.epoch, request.call, claimed.wall_ms)"),
        f"{_DURABLE}::test_rows_with_sequences_are_written_once_whatever_the_sender",
    ),
    one(
        "ack of a batch forgets the next",
        "oncegate.index.claims.batch_scopes::BatchScopes.acked",
        shift("batch < batches"),
        f"{_SCOPES}::test_only_what_was_claimed_in_those_batches_is_forgotten",
    ),
    one(
        "ack over a batch's open claims",
        "oncegate.engine.usecases.drivers::Drivers.ack",
        replace("ACK_BATCH[BatchState.OPEN].effect is not BatchEffect.HOLD_BACK", "open_claims"),
        f"{_SCOPES}::test_a_batch_whose_claim_is_open_is_held_back_and_it_alone",
    ),
    one(
        "one part refused, none acked",
        "oncegate.engine.usecases.drivers::Drivers.ack",
        replace_statement(
            ("moves = dict(self._moves(((name, sequence) for name, sequence, refused in parts if refused is None)))"),
            (
                "passing = [] if any((part[2] for part in parts)) else [part[:2] for part in parts]\n"
                "moves = dict(self._moves(passing))"
            ),
        ),
        f"{_ACKING}::test_a_part_that_is_refused_keeps_no_other_part_from_being_acked",
    ),
    one(
        "an older batch passes",
        "oncegate.engine.usecases.drivers::Drivers._batches",
        delete("order = BatchOrder.OLDER if batches < driver.batches else order"),
        f"{_ACKING}::test_an_ack_of_an_earlier_batch_is_refused_whole_with_the_last_one",
    ),
    one(
        "the batch acked last is an older one",
        "oncegate.engine.usecases.drivers::Drivers._batches",
        shift("batches < driver.batches"),
        f"{_ACKING}::test_an_ack_of_an_earlier_batch_is_refused_whole_with_the_last_one",
    ),
    one(
        "a sequence that was held back is STALE",
        "oncegate.index.producers.store::Driver.is_over",
        replace("batch < self.batches and batch not in self.held_back", "batch < self.batches"),
        f"{_SCOPES}::test_a_batch_whose_claim_is_open_is_held_back_and_it_alone",
    ),
    one(
        "a refused ack releases the sequences that were held back",
        "oncegate.index.producers.apply::_ack.undo",
        replace("driver.held_back", "_"),
        f"{_SCOPES}::test_a_batch_that_is_held_back_is_so_after_a_restart_a_collection_and_a_refused_ack",
    ),
    one(
        "sequences that were held back are never checked again",
        "oncegate.engine.usecases.drivers::Drivers.ack",
        replace(
            "moves or batches > driver.batches or (batches and held_back != driver.held_back)",
            "moves or batches > driver.batches",
        ),
        f"{_SCOPES}::test_a_batch_whose_claim_is_open_is_held_back_and_it_alone",
    ),
    one(
        "a refused part said before what it rests on is durable",
        "oncegate.engine.usecases.drivers::Drivers.ack",
        delete("await journal.group_commit.all_durable()"),
        f"{_DURABLE}::test_a_batch_that_is_held_back_waits_for_the_claim_that_holds_it",
    ),
    one(
        "another's row goes with a batch",
        "oncegate.index.claims.batch_scopes::BatchScopes._rows_of",
        replace("self._rows.used[rows] & (self._makers(rows) == made_by)", "self._rows.used[rows]"),
        f"{_SCOPES}::test_a_row_that_was_given_to_another_claim_is_left_alone",
    ),
    one(
        "batches forgotten by a collection",
        "oncegate.index.claims.parts::_ScopesReader.finish",
        replace_statement("self._scopes.restore(...)", "pass"),
        f"{_SCOPES}::test_a_collected_ledger_knows_which_batch_ids_are_of",
    ),
    one(
        "cleared over a live lease",
        "oncegate.engine.usecases.operations.leftovers::_leftover",
        replace("Leftover.LIVE if lease_left_ms > 0 else Leftover.OVER", "Leftover.OVER"),
        f"{_LEFTOVERS}::test_nothing_is_cleared_over_a_live_lease",
    ),
    one(
        "a claim cleared over a live lease",
        "oncegate.engine.usecases.operations.leftovers::Leftovers.of_claim",
        replace("view.state is ClaimState.OPEN and view.lease_left_ms > 0", "False"),
        f"{_LEFTOVERS}::test_nothing_is_cleared_over_a_live_lease",
    ),
    one(
        "a call continues that was cleared",
        "oncegate.index.producers.apply::_resolve",
        delete("producer.calls = producer.calls | over"),
        f"{_LEFTOVERS}::test_the_holder_of_cleared_ids_gets_their_new_state",
    ),
    one(
        "a call cleared in part",
        "oncegate.engine.usecases.operations.leftovers::Leftovers._check_calls",
        replace("first < int(spans[0, 0]) or last > int(spans[-1, 1])", "first > last"),
        f"{_LEFTOVERS}::test_the_holder_of_cleared_ids_gets_their_new_state",
    ),
    one(
        "a sequence that was given up delays an ack",
        "oncegate.index.producers.apply::_resolve",
        replace("DONE if entry.is_done else GIVEN", "DONE if entry.is_done else FREE"),
        f"{_LEFTOVERS}::test_leftovers_resolved_as_not_done_let_acks_pass_and_are_granted_until_then",
    ),
    one(
        "given up taken for done",
        "oncegate.index.producers.store::ProducerStore.unfinished",
        replace(
            "self.blocks_ack[kinds.astype(np.intp)] | (kinds == GIVEN)",
            "self.blocks_ack[kinds.astype(np.intp)]",
        ),
        f"{_LEFTOVERS}::test_leftovers_resolved_as_not_done_let_acks_pass_and_are_granted_until_then",
    ),
    one(
        "a claim cleared without a word",
        "oncegate.engine.usecases.operations.leftovers::Leftovers.of_claim",
        without("note"),
        f"{_LEFTOVERS}::test_name_and_reason_are_in_the_ledger_and_in_the_log",
    ),
    one(
        "a gap among those that are claimed",
        "oncegate.index.producers.decide::_is_gap",
        replace("not len(new) or bool((new[1:] != new[:-1] + np.uint64(1)).any())", "not len(new)"),
        f"{_GAPS}::test_skipped_sequences_are_a_gap_where_gaps_are_refused",
    ),
    one(
        "the next may be passed over",
        "oncegate.index.producers.decide::_is_gap",
        replace("int(new[0]) != claimed_to + 1", "int(new[0]) > claimed_to + 2"),
        f"{_GAPS}::test_skipped_sequences_are_a_gap_where_gaps_are_refused",
    ),
    one(
        "gaps forgotten with the next entry",
        "oncegate.index.producers.apply::_register",
        without("gaps="),
        f"{_GAPS}::test_that_there_are_no_gaps_is_known_after_a_restart_and_a_collection",
    ),
    one(
        "a known sequence may not be left out",
        "oncegate.index.producers.decide::_is_gap",
        replace(
            "new[1:] != new[:-1] + np.uint64(1)",
            "(sequences[1:] != sequences[:-1] + np.uint64(1)) & (sequences[1:] >= new[0])",
        ),
        f"{_GAPS}::test_its_first_claim_may_begin_anywhere_and_what_is_vouched_for_is_no_gap",
        f"{_WALK}[sequences without gaps]",
    ),
    one(
        "done by a person's word before that is durable",
        "oncegate.index.producers.apply::_resolve",
        without("position="),
        f"{_DURABLE}::test_a_complete_of_leftovers_resolved_as_done_is_answered_once_that_is_durable",
        f"{_WALK}[sequences, cleared]",
    ),
    Mutant(
        "a claim taken back takes a renewal with it",
        (
            (
                "oncegate.index.producers.apply::_claim",
                insert("lease_until_ms = now_ms", after="store.takeovers += count_of(taken)"),
            ),
            (
                "oncegate.index.producers.apply::_claim.undo",
                insert("producer.lease_until_ms = lease_until_ms", after="producer.calls.pop(...)"),
            ),
        ),
        (f"{_DURABLE}::test_an_answered_renewal_counts_though_an_earlier_claim_is_refused",),
    ),
)
