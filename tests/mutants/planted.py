"""The planted bugs: each a change of the shipped source, and the ordinary tests that must turn red."""

from tests.mutants.edits import cell, delete, insert, replace, replace_statement
from tests.mutants.mutant import Mutant, one

INDEX = "service/oncegate/index"
ENGINE = "service/oncegate/engine"


_CELLS = "tests/index/claims/test_cells.py"
_IN_STEPS = "tests/index/snapshot/test_snapshot_in_steps.py"
_POOLING = "tests/index/claims/test_row_sharing.py"
_REPEATS = "tests/engine/recovery/test_repeats_and_asks.py"
_UPKEEP = "tests/engine/maintenance/test_scheduler.py"
_WALKS = "tests/model/mixed/test_walks.py::test_the_properties_hold_whatever_happens_to_messages_ledger_and_clocks"
_MIXED = f"{_WALKS}[mixed, late]"

PLANTED: tuple[Mutant, ...] = (
    one(
        "a save forgets what is overwritten",
        "oncegate.index.table.table::Table._overwritten",
        delete("self.snapshot.overwritten(...)"),
        _IN_STEPS,
    ),
    one(
        "a save forgets the payloads of what is overwritten",
        "oncegate.index.claims.snapshot::_ClaimsSnapshot.overwritten",
        replace("digests[at].tobytes()", "bytes(4 * len(tags))"),
        _IN_STEPS,
    ),
    one(
        "a save that was stopped is taken for whole",
        "oncegate.engine.maintenance.snapshotter::Snapshotter._step",
        replace("self._end_steps(error)", "self._end_steps(None)"),
        "tests/engine/maintenance/test_snapshot_under_load.py",
    ),
    one(
        "a save has a later row",
        "oncegate.index.table.rows::Rows.next_free",
        replace("self._spares and (not self.only_new)", "self._spares"),
        _IN_STEPS,
    ),
    one(
        "a sweep under a save",
        "oncegate.index.table.table::Table._sweeps",
        replace("self.dead > 0 and self.snapshot is None", "self.dead > 0"),
        _IN_STEPS,
    ),
    one(
        "a named claim shares a row",
        "oncegate.index.table.resize::pool",
        replace(
            ("row < 0 or states[row] != STATE_DONE or remembered[row] != 0 or (pins[row] != 0) or (named[row] > most)"),
            "row < 0 or states[row] != STATE_DONE or pins[row] != 0 or (named[row] > most)",
        ),
        _POOLING,
    ),
    one(
        "a shared row has the oldest time",
        "oncegate.index.table.resize::pool",
        replace("max(times[shared], times[row])", "min(times[shared], times[row])"),
        f"{_POOLING}::test_nothing_is_forgotten_before_its_time",
    ),
    one(
        "partial settle",
        "oncegate.index.claims.apply::_settle_claim",
        replace("record.rows", "record.rows[:1]", nth=2),
        "tests/index/claims/test_index.py",
        _CELLS,
        "tests/index/claims/test_replay.py",
    ),
    one(
        "first completer",
        "oncegate.index.table.kernels::upsert",
        replace_statement(
            "words[slot, 1] = home << HALF | np.uint64(row + 1)",
            (
                "if previous[i] == NO_ROW or states[previous[i]] != STATE_OPEN:\n"
                "    words[slot, 1] = home << HALF | np.uint64(row + 1)"
            ),
        ),
        _CELLS,
        "tests/index/claims/test_index.py",
    ),
    Mutant(
        "repeat from a cache",
        (
            (
                "oncegate.engine.usecases.claim_batching::ClaimBatcher.decide",
                insert(
                    (
                        "cache = self.__dict__.setdefault('cache', {})\n"
                        "if (request.token, request.call) in cache:\n"
                        "    return cache[request.token, request.call]"
                    ),
                    after="times = ...",
                ),
            ),
            (
                "oncegate.engine.usecases.claim_batching::ClaimBatcher.decide",
                replace_statement(
                    "return DecidedClaim(result, decision.actions, rests_on, duplicates)",
                    (
                        "cache[request.token, request.call] = DecidedClaim(result, decision.actions, "
                        "rests_on, duplicates)\n"
                        "return cache[request.token, request.call]"
                    ),
                ),
            ),
        ),
        (f"{_REPEATS}::test_a_late_repeat_of_a_claim_that_was_taken_over_is_busy",),
    ),
    one(
        "repeat grants more",
        "oncegate.core.claims::CLAIM",
        cell("(IdState.ABSENT, Asker.REPEAT)", "_FRESH"),
        _CELLS,
        _REPEATS,
    ),
    one(
        "settle by slot alone",
        "oncegate.core.claims::SETTLE",
        cell("(Verb.COMPLETE, ClaimState.RELEASED)", "Cell(Effect.MARK_DONE, 'the slot says so', 'nothing else')"),
        _CELLS,
    ),
    one(
        "first-fit reuse",
        "oncegate.index.table.kernels::upsert",
        insert(
            (
                "at = np.int64(home) * capacity[segment] >> 32\n"
                "while words[base[segment] + at, 1] & np.uint64(4294967295) != 0:\n"
                "    dead = holders.state[row_at(words, base[segment] + at)]\n"
                "    if dead != STATE_OPEN and dead != STATE_DONE:\n"
                "        slot = base[segment] + at\n"
                "        words[slot, 0] = tag\n"
                "        break\n"
                "    at = (at + 1) % capacity[segment]"
            ),
            before="if slot < 0:\n    ...\nelse:\n    ...",
        ),
        "tests/index/table/test_slots_and_rows.py::test_a_dead_slot_is_taken_over_by_its_own_id_alone",
    ),
    one(
        "row reuse before sweep",
        "oncegate.index.table.rows::Rows.give_back_idle",
        replace(
            "holders.slots[row] or holders.pins[row] or holders.remembered[row]",
            "holders.pins[row] or holders.remembered[row]",
        ),
        "tests/index/table/test_slots_and_rows.py",
    ),
    one(
        "verdict before durable",
        "oncegate.engine.usecases.claim_batching::ClaimBatcher._turn",
        replace(
            "self._journal.group_commit.wait(one.decided.rests_on, one.waiter, one.span)", "one.waiter.set_result(None)"
        ),
        "tests/engine/commit/test_durable_before_said.py",
    ),
    Mutant(
        "token per job",
        (
            (
                "oncegate_spark.spark.datasource::BatchWriter.__init__",
                insert("writer.token = new_token()", before="self.writer = writer"),
            ),
            (
                "oncegate_spark.spark.datasource::StreamWriter.__init__",
                insert("writer.token = new_token()", before="self.writer = writer"),
            ),
            ("oncegate_spark.spark.datasource::_written", replace("new_token()", "writer.token")),
        ),
        (
            "tests/spark/test_killed_attempts.py::test_claim_suppresses_what_a_killed_worker_had_completed",
            "tests/spark/test_batch_writes.py::test_a_named_run_that_is_repeated_is_published_once",
        ),
    ),
    one(
        "abort by key",
        "oncegate.engine.usecases.batches::Batches.abort",
        replace(
            (
                "[token for token in dict.fromkeys(request.tokens) if "
                "self._index.stage(request.name, token) is not None]"
            ),
            "list(self._index.stages.get(request.name, {}))",
        ),
        f"{_REPEATS}::test_an_abort_removes_the_stages_of_its_tokens_and_no_others",
    ),
    one(
        "XOR fingerprint",
        "oncegate.hashing.rows::_sum",
        replace("limb.sum(dtype=np.uint64)", "np.bitwise_xor.reduce(limb)"),
        "tests/hashing/test_rows.py::test_a_row_twice_is_not_another_row_twice",
    ),
    one(
        "digest read in commit()",
        "oncegate_spark.spark.writers.staged::StagedWriter._order",
        replace_statement(
            "read = messages[0].read",
            ("from oncegate_spark.spark.checkpoint import read_input\nread = read_input(self.options.checkpoint)"),
        ),
        "tests/client/spark/test_staged_commit.py",
    ),
    one(
        "ask not durable",
        "oncegate.engine.usecases.batches::Batches._commit",
        replace(
            "await journal.group_commit.durable(journal.record([*met, decision]))", "self._index.apply(0, decision)"
        ),
        f"{_REPEATS}::test_a_second_write_is_known_as_one_after_the_gateway_was_killed",
    ),
    one(
        "drain without fingerprint",
        "oncegate.engine.usecases.batches::Batches.stage",
        replace(
            "StageResult(True, request.rows.rows, request.fingerprint)",
            "StageResult(True, request.rows.rows, bytes(16))",
        ),
        f"{_REPEATS}::test_a_replay_whose_input_is_unknown_is_compared_by_its_rows",
    ),
    Mutant(
        "fetch past the durable frame",
        (
            (
                "oncegate.ledgers.log.writer::LogWriter.write",
                insert("self.apply(changes)", before="self._write_frame(...)"),
            ),
            (
                "oncegate.ledgers.log.ledger::LogLedger.__init__",
                insert("self._writer.apply = self._apply", after="self.predecessors = found.scan.predecessors"),
            ),
            ("oncegate.ledgers.log.ledger::LogLedger._written", delete("self._apply(...)")),
        ),
        ("tests/faults/ledger/test_failing_disk.py",),
    ),
    one(
        "witness ignored",
        "oncegate.ledgers.log.opening.recovery::inspect",
        delete("require_witnessed(...)"),
        "tests/faults/ledger/test_damage.py::test_a_cut_at_each_byte_of_the_last_frame_is_refused",
    ),
    one(
        "busy is success",
        "oncegate_spark.spark.writers.claim_loop::Settler._settle",
        replace("claimed.verdicts.open", "pc.and_(claimed.verdicts.open, False)"),
        "tests/client/spark/test_claim_loop.py",
        "tests/client/spark/test_sinks.py",
    ),
    one(
        "produce's repeat from a cache",
        "oncegate.engine.usecases.produce::Records._by_id",
        replace(
            "self._decide(request, ids, digest, now_ms)",
            (
                "self.__dict__.setdefault('cache', {}).setdefault((request.token, "
                "request.call), self._decide(request, ids, digest, now_ms))"
            ),
        ),
        "tests/engine/usecases/test_produce.py",
        _MIXED,
    ),
    one(
        "produce's repeat is busy",
        "oncegate.core.claims::PRODUCE",
        cell("(IdState.ABSENT, Asker.REPEAT)", "_REPEAT_BUSY"),
        _CELLS,
    ),
    one(
        "produce over a live claim",
        "oncegate.core.claims::PRODUCE",
        cell("(IdState.CLAIMED_LIVE, Asker.OTHER)", "_TAKES_AND_WRITES"),
        _MIXED,
    ),
    Mutant(
        "produce marks busy rows done",
        (
            (
                "oncegate.engine.usecases.produce::_ids",
                replace(
                    "(request.ids[share.row_indices], decision.actions[share.row_indices])",
                    "(request.ids, decision.actions)",
                ),
            ),
            ("oncegate.engine.usecases.produce::_ids", replace("acts == Action.GRANT", "acts != Action.TAKE_OVER")),
        ),
        (
            "tests/engine/usecases/test_produce.py",
            _MIXED,
        ),
    ),
    one(
        "every partition's entry names every id",
        "oncegate.engine.usecases.produce::_ids",
        replace(
            "(request.ids[share.row_indices], decision.actions[share.row_indices])", "(request.ids, decision.actions)"
        ),
        _MIXED,
    ),
    one(
        "produce said before durable",
        "oncegate.engine.usecases.produce::Records._by_id",
        delete("await self.journal.group_commit.durable(...)"),
        "tests/engine/usecases/test_produce.py",
        _MIXED,
    ),
    one(
        "taken by anybody",
        "oncegate.core.claims::TAKE",
        cell("(IdState.TAKEN, Asker.OTHER)", "_KEEPS"),
        _MIXED,
    ),
    one(
        "owner forgotten",
        "oncegate.index.table.grants::grant_of",
        replace("entry.owner", "NO_CLAIM"),
        _MIXED,
    ),
    Mutant(
        "retired before durable",
        (
            (
                "oncegate.index.claims.apply::undo",
                replace("(holders.state[due], holders.position[due])", "holders.position[due]"),
            ),
            ("oncegate.index.claims.apply::undo", replace("(states, positions)", "positions")),
        ),
        (
            f"{_UPKEEP}::test_a_retirement_that_the_ledger_refuses_is_taken_back",
            f"{_WALKS}[retiring]",
        ),
    ),
    Mutant(
        "open claims retire",
        (
            (
                "oncegate.index.table.resize::retire",
                replace("(STATE_DONE, STATE_TAKEN)", "(STATE_DONE, STATE_TAKEN, 0)"),
            ),
            (
                "oncegate.index.claims.apply::_grant",
                replace_statement("if grant.state != OPEN:\n    store.expiry.add(row)", "store.expiry.add(row)"),
            ),
        ),
        ("tests/index/claims/test_expiry.py", f"{_WALKS}[retiring]"),
    ),
    one(
        "room for what is granted is made without its ids",
        "oncegate.index.claims.apply::_grant",
        replace("fresh + taken", "0"),
        "tests/engine/usecases/test_room.py::test_room_for_its_ids_is_made_once",
    ),
    one(
        "no room is made for what is granted",
        "oncegate.index.claims.apply::_grant",
        delete("store.make_room(...)"),
        "tests/engine/usecases/test_room.py",
    ),
    one(
        "a bucket too early",
        "oncegate.engine.maintenance.scheduler::Scheduler.retire",
        replace("index.settings.buckets[0]", "index.settings.buckets[1]"),
        f"{_UPKEEP}::test_an_id_done_within_a_bucket_is_known_for_the_whole_horizon",
    ),
    one(
        "two buckets at once",
        "oncegate.engine.maintenance.scheduler::Scheduler.retire",
        replace("now_ms - self._retired_ms < bucket_ms(horizon_ms)", "now_ms == self._retired_ms"),
        f"{_UPKEEP}::test_each_bucket_is_one_entry_and_none_is_written_where_nothing_can_retire",
    ),
    one(
        "compacted without its buckets",
        "oncegate.index.settings::NamespaceSettings.snapshot",
        replace("(self.in_force, self.buckets)", "(self.in_force, ())"),
        f"{_WALKS}[retiring]",
    ),
    one(
        "age by the wall clock",
        "oncegate.engine.maintenance.scheduler::Scheduler.retire",
        replace(
            "index.settings.buckets[0] if len(index.settings.buckets) == buckets_kept(horizon_ms) else 0",
            "max(0, journal.wall_ms() - horizon_ms)",
        ),
        f"{_UPKEEP}::test_a_wall_clock_set_forward_makes_nothing_older",
        f"{_WALKS}[retiring, clocks set]",
    ),
    one(
        "trim above retention",
        "oncegate.engine.maintenance.scheduler::_kept_from",
        replace("rows_wall_ms + topic.retention_ms", "rows_wall_ms + topic.retention_ms // 2"),
        f"{_UPKEEP}::test_rows_older_than_a_topics_retention_go_whole_requests_at_a_time",
    ),
    one(
        "newest rows trimmed by bytes",
        "oncegate.engine.maintenance.scheduler::_kept_from",
        replace(
            ("topic.retention_bytes and size_bytes > topic.retention_bytes and (number < len(ranges) - 1)"),
            "topic.retention_bytes and size_bytes > topic.retention_bytes",
        ),
        f"{_UPKEEP}::test_rows_beyond_a_topics_bytes_go_but_never_the_newest",
    ),
    one(
        "offsets with a hole",
        "oncegate.index.topics::TopicIndex._extend.undo",
        delete("partition.high_offset -= span.rows"),
        "tests/index/test_topics.py",
        "tests/index/test_batches_undo.py",
    ),
    one(
        "partition by turn",
        "oncegate.engine.usecases.partitioning::partition_of",
        replace("(keys % np.uint64(partitions)).astype(np.int64)", "(np.arange(rows) + turn) % partitions"),
        _MIXED,
    ),
)
