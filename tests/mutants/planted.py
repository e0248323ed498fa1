"""The planted bugs: each a change of the shipped source, and the ordinary tests that must turn red."""

from tests.mutants.mutant import Mutant, one

INDEX = "service/oncegate/index"
ENGINE = "service/oncegate/engine"
LOG = "service/oncegate/ledgers/log"
CLIENT = "spark_client/oncegate_spark"


def _token_per_job(docstring: str) -> tuple[str, str, str]:
    """The writer is pickled once, so what its __init__ makes is the same in every task and every attempt."""
    old = f'{docstring}"""\n\n    def __init__(self, writer: Writer, empty: EmptyWrite) -> None:\n'
    return f"{CLIENT}/spark/datasource.py", old, f"{old}        writer.token = new_token()\n"


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
        f"{INDEX}/table/table.py",
        "            self.snapshot.overwritten(ids, previous, old_digests)\n",
        "            pass\n",
        _IN_STEPS,
    ),
    one(
        "a save forgets the payloads of what is overwritten",
        f"{INDEX}/snapshot/claims_writer.py",
        "            self._before.digests.append(digests[at].tobytes())\n",
        "            self._before.digests.append(bytes(4 * len(tags)))\n",
        _IN_STEPS,
    ),
    one(
        "a save that was stopped is taken for whole",
        f"{ENGINE}/maintenance/snapshotter.py",
        "            self._end_steps(error)\n",
        "            self._end_steps(None)\n",
        "tests/engine/maintenance/test_snapshot_under_load.py",
    ),
    one(
        "a save has a later row",
        f"{INDEX}/table/rows.py",
        "        if self._spares and not self.only_new:\n",
        "        if self._spares:\n",
        _IN_STEPS,
    ),
    one(
        "a sweep under a save",
        f"{INDEX}/table/table.py",
        "        return self.dead > 0 and self.snapshot is None\n",
        "        return self.dead > 0\n",
        _IN_STEPS,
    ),
    one(
        "a named claim shares a row",
        f"{INDEX}/table/resize.py",
        "STATE_DONE or remembered[row] != 0 or pins[row] != 0 or named[row] > most:",
        "STATE_DONE or pins[row] != 0 or named[row] > most:",
        _POOLING,
    ),
    one(
        "a shared row has the oldest time",
        f"{INDEX}/table/resize.py",
        "times[shared], positions[shared] = max(times[shared], times[row])",
        "times[shared], positions[shared] = min(times[shared], times[row])",
        f"{_POOLING}::test_nothing_is_forgotten_before_its_time",
    ),
    one(
        "partial settle",
        f"{INDEX}/claims/apply.py",
        "    for row in record.rows:\n        before = ",
        "    for row in record.rows[:1]:\n        before = ",
        "tests/index/claims/test_index.py",
        _CELLS,
        "tests/index/claims/test_replay.py",
    ),
    one(
        "first completer",
        f"{INDEX}/table/kernels.py",
        "        words[slot, 1] = home << HALF | np.uint64(row + 1)\n        _exchange(slot_digests,",
        "        if previous[i] == NO_ROW or states[previous[i]] != STATE_OPEN:\n"
        "            words[slot, 1] = home << HALF | np.uint64(row + 1)\n        _exchange(slot_digests,",
        _CELLS,
        "tests/index/claims/test_index.py",
    ),
    Mutant(
        "repeat from a cache",
        (
            (
                f"{ENGINE}/usecases/claims.py",
                "        decision = self._index.decide(\n",
                "        cache = self.__dict__.setdefault('cache', {})\n"
                "        if (request.token, request.call) in cache:\n"
                "            return cache[request.token, request.call]\n"
                "        decision = self._index.decide(\n",
            ),
            (
                f"{ENGINE}/usecases/claims.py",
                "        return DecidedClaim(result, decision.actions, rests_on, duplicates)\n",
                "        cache[request.token, request.call] = DecidedClaim(result, decision.actions, rests_on, duplicates)\n"
                "        return cache[request.token, request.call]\n",
            ),
        ),
        (f"{_REPEATS}::test_a_late_repeat_of_a_claim_that_was_taken_over_is_busy",),
    ),
    one(
        "repeat grants more",
        "service/oncegate/core/claims.py",
        "    (IdState.ABSENT, Asker.REPEAT): _REPEAT_BUSY,",
        "    (IdState.ABSENT, Asker.REPEAT): _FRESH,",
        _CELLS,
        _REPEATS,
    ),
    one(
        "settle by slot alone",
        "service/oncegate/core/claims.py",
        "    (Verb.COMPLETE, ClaimState.RELEASED): _RELEASED,",
        '    (Verb.COMPLETE, ClaimState.RELEASED): Cell(Effect.MARK_DONE, "the slot says so", "nothing else"),',
        _CELLS,
    ),
    one(
        "first-fit reuse",
        f"{INDEX}/table/kernels.py",
        "        slot = find(words, base[segment], capacity[segment], tag, home)\n"
        "        if slot < 0:\n            slot, new",
        "        slot = find(words, base[segment], capacity[segment], tag, home)\n"
        "        at = np.int64(home) * capacity[segment] >> 32\n"
        "        while words[base[segment] + at, 1] & np.uint64(0xFFFF_FFFF) != 0:\n"
        "            dead = holders.state[row_at(words, base[segment] + at)]\n"
        "            if dead != STATE_OPEN and dead != STATE_DONE:\n"
        "                slot = base[segment] + at\n"
        "                words[slot, 0] = tag\n"
        "                break\n"
        "            at = (at + 1) % capacity[segment]\n"
        "        if slot < 0:\n            slot, new",
        "tests/index/table/test_slots_and_rows.py::test_a_dead_slot_is_taken_over_by_its_own_id_alone",
    ),
    one(
        "row reuse before sweep",
        f"{INDEX}/table/rows.py",
        "if not (holders.slots[row] or holders.pins[row] or holders.remembered[row])]",
        "if not (holders.pins[row] or holders.remembered[row])]",
        "tests/index/table/test_slots_and_rows.py",
    ),
    one(
        "verdict before durable",
        f"{ENGINE}/usecases/claim_batching.py",
        "            self._journal.group_commit.wait(one.decided.rests_on, one.waiter, one.span)\n",
        "            one.waiter.set_result(None)\n",
        "tests/engine/commit/test_durable_before_said.py",
    ),
    Mutant(
        "token per job",
        (
            _token_per_job("writer of its write mode."),
            _token_per_job("those of `df.write`."),
            (f"{CLIENT}/spark/datasource.py", "counted, task = new_token(), ", "counted, task = writer.token, "),
        ),
        (
            "tests/spark/test_killed_attempts.py::test_claim_suppresses_what_a_killed_worker_had_completed",
            "tests/spark/test_batch_writes.py::test_a_named_run_that_is_repeated_is_published_once",
        ),
    ),
    one(
        "abort by key",
        f"{ENGINE}/usecases/batches.py",
        "there = [token for token in dict.fromkeys(request.tokens) if self._index.stage(request.name, token) is not None]",
        "there = list(self._index.stages.get(request.name, {}))",
        f"{_REPEATS}::test_an_abort_removes_the_stages_of_its_tokens_and_no_others",
    ),
    one(
        "XOR fingerprint",
        "service/oncegate/hashing/rows.py",
        "int(limb.sum(dtype=np.uint64)) << (32 * index)",
        "int(np.bitwise_xor.reduce(limb)) << (32 * index)",
        "tests/hashing/test_rows.py::test_a_row_twice_is_not_another_row_twice",
    ),
    one(
        "digest read in commit()",
        f"{CLIENT}/spark/writers/staged.py",
        "        read = messages[0].read\n        winners",
        "        from oncegate_spark.spark.checkpoint import read_input\n\n"
        "        read = read_input(self.options.checkpoint)\n        winners",
        "tests/client/spark/test_staged_commit.py",
    ),
    one(
        "ask not durable",
        f"{ENGINE}/usecases/batches.py",
        "        await journal.group_commit.durable(journal.record([*met, decision]))\n",
        "        self._index.apply(0, decision)\n",
        f"{_REPEATS}::test_a_second_write_is_known_as_one_after_the_gateway_was_killed",
    ),
    one(
        "drain without fingerprint",
        f"{ENGINE}/usecases/batches.py",
        "            return StageResult(True, request.rows.rows, request.fingerprint)",
        "            return StageResult(True, request.rows.rows, bytes(16))",
        f"{_REPEATS}::test_a_replay_whose_input_is_unknown_is_compared_by_its_rows",
    ),
    Mutant(
        "fetch past the durable frame",
        (
            (
                f"{LOG}/writer.py",
                "                self._write_frame(len(entries), encode_body(Body(entries, changes)))",
                "                self.apply(changes)\n"
                "                self._write_frame(len(entries), encode_body(Body(entries, changes)))",
            ),
            (
                f"{LOG}/ledger.py",
                "        self.predecessors = found.scan.predecessors\n",
                "        self.predecessors = found.scan.predecessors\n        self._writer.apply = self._apply\n",
            ),
            (
                f"{LOG}/ledger.py",
                "        self._apply(written.result())\n",
                "",
            ),
        ),
        ("tests/faults/ledger/test_failing_disk.py",),
    ),
    one(
        "witness ignored",
        f"{LOG}/opening/recovery.py",
        "        require_witnessed(paths, walk, seen)\n    require_reach",
        "    require_reach",
        "tests/faults/ledger/test_damage.py::test_a_cut_at_each_byte_of_the_last_frame_is_refused",
    ),
    one(
        "busy is success",
        f"{CLIENT}/spark/writers/claim_loop.py",
        "            again = claimed.verdicts.open\n",
        "            again = pc.and_(claimed.verdicts.open, False)\n",
        "tests/client/spark/test_claim_loop.py",
        "tests/client/spark/test_sinks.py",
    ),
    one(
        "produce's repeat from a cache",
        f"{ENGINE}/usecases/produce.py",
        "        decision = self._decide(request, ids, digest, now_ms)\n",
        '        decision = self.__dict__.setdefault("cache", {}).setdefault(\n'
        "            (request.token, request.call), self._decide(request, ids, digest, now_ms)\n"
        "        )\n",
        "tests/engine/usecases/test_produce.py",
        _MIXED,
    ),
    one(
        "produce's repeat is busy",
        "service/oncegate/core/claims.py",
        "    (IdState.ABSENT, Asker.REPEAT): _WRITES,\n    (IdState.ABSENT, Asker.SAME_TOKEN): _WRITES,",
        "    (IdState.ABSENT, Asker.REPEAT): _REPEAT_BUSY,\n    (IdState.ABSENT, Asker.SAME_TOKEN): _WRITES,",
        _CELLS,
    ),
    one(
        "produce over a live claim",
        "service/oncegate/core/claims.py",
        "    (IdState.CLAIMED_LIVE, Asker.OTHER): _HELD,\n    (IdState.CLAIMED_OVER, Asker.SAME_CLAIM): _TAKES_AND",
        "    (IdState.CLAIMED_LIVE, Asker.OTHER): _TAKES_AND_WRITES,\n"
        "    (IdState.CLAIMED_OVER, Asker.SAME_CLAIM): _TAKES_AND",
        _MIXED,
    ),
    one(
        "produce marks busy rows done",
        f"{ENGINE}/usecases/produce.py",
        "    ids, acts = request.ids[share.row_indices], decision.actions[share.row_indices]\n"
        "    fresh, taken = acts == Action.GRANT, acts == Action.TAKE_OVER\n",
        "    ids, acts = request.ids, decision.actions\n"
        "    fresh, taken = acts != Action.TAKE_OVER, acts == Action.TAKE_OVER\n",
        "tests/engine/usecases/test_produce.py",
        _MIXED,
    ),
    one(
        "every partition's entry names every id",
        f"{ENGINE}/usecases/produce.py",
        "    ids, acts = request.ids[share.row_indices], decision.actions[share.row_indices]\n",
        "    ids, acts = request.ids, decision.actions\n",
        _MIXED,
    ),
    one(
        "produce said before durable",
        f"{ENGINE}/usecases/produce.py",
        "        await self._journal.group_commit.durable(rests_on)\n        self._journal.counts.add_ids(",
        "        self._journal.counts.add_ids(",
        "tests/engine/usecases/test_produce.py",
        _MIXED,
    ),
    one(
        "taken by anybody",
        "service/oncegate/core/claims.py",
        "    (IdState.TAKEN, Asker.SAME_TOKEN): _KEEPS,\n    (IdState.TAKEN, Asker.OTHER): _BELONGS,",
        "    (IdState.TAKEN, Asker.SAME_TOKEN): _KEEPS,\n    (IdState.TAKEN, Asker.OTHER): _KEEPS,",
        _MIXED,
    ),
    one(
        "owner forgotten",
        f"{INDEX}/table/grants.py",
        "        return Grant(NO_CLAIM, entry.owner, 0,",
        "        return Grant(NO_CLAIM, NO_CLAIM, 0,",
        _MIXED,
    ),
    one(
        "retired before durable",
        f"{INDEX}/claims/apply.py",
        "        holders.state[due], holders.position[due] = states, positions\n",
        "        holders.position[due] = positions\n",
        f"{_UPKEEP}::test_a_retirement_that_the_ledger_refuses_is_taken_back",
        f"{_WALKS}[retiring]",
    ),
    Mutant(
        "open claims retire",
        (
            (
                f"{INDEX}/table/resize.py",
                "        if state in (STATE_DONE, STATE_TAKEN) and wall_ms[row] < before_ms:\n",
                "        if state in (STATE_DONE, STATE_TAKEN, 0) and wall_ms[row] < before_ms:\n",
            ),
            (
                f"{INDEX}/claims/apply.py",
                "        if grant.state != OPEN:\n            store.expiry.add(row)\n",
                "        store.expiry.add(row)\n",
            ),
        ),
        ("tests/index/claims/test_expiry.py", f"{_WALKS}[retiring]"),
    ),
    one(
        "a bucket too early",
        f"{ENGINE}/maintenance/scheduler.py",
        "index.buckets[0] if len(index.buckets) == buckets_kept(horizon_ms) else 0",
        "index.buckets[1] if len(index.buckets) == buckets_kept(horizon_ms) else 0",
        f"{_UPKEEP}::test_an_id_done_within_a_bucket_is_known_for_the_whole_horizon",
    ),
    one(
        "two buckets at once",
        f"{ENGINE}/maintenance/scheduler.py",
        "now_ms - self._retired_ms < bucket_ms(horizon_ms)",
        "now_ms == self._retired_ms",
        f"{_UPKEEP}::test_each_bucket_is_one_entry_and_none_is_written_where_nothing_can_retire",
    ),
    one(
        "compacted without its buckets",
        "service/oncegate/index/snapshot/pieces.py",
        "msgspec.msgpack.encode(settings)",
        "msgspec.msgpack.encode((settings[0], ()))",
        f"{_WALKS}[retiring]",
    ),
    one(
        "age by the wall clock",
        f"{ENGINE}/maintenance/scheduler.py",
        "        before_ms = index.buckets[0] if len(index.buckets) == buckets_kept(horizon_ms) else 0\n",
        "        before_ms = max(0, journal.wall_ms() - horizon_ms)\n",
        f"{_UPKEEP}::test_a_wall_clock_set_forward_makes_nothing_older",
        f"{_WALKS}[retiring, clocks set]",
    ),
    one(
        "trim above retention",
        f"{ENGINE}/maintenance/scheduler.py",
        "rows_wall_ms + topic.retention_ms <= wall_ms",
        "rows_wall_ms + topic.retention_ms // 2 <= wall_ms",
        f"{_UPKEEP}::test_rows_older_than_a_topics_retention_go_whole_requests_at_a_time",
    ),
    one(
        "newest rows trimmed by bytes",
        f"{ENGINE}/maintenance/scheduler.py",
        "size_bytes > topic.retention_bytes and number < len(ranges) - 1",
        "size_bytes > topic.retention_bytes",
        f"{_UPKEEP}::test_rows_beyond_a_topics_bytes_go_but_never_the_newest",
    ),
    one(
        "offsets with a hole",
        f"{INDEX}/topics.py",
        "                partition.high_offset -= span.rows\n",
        "",
        "tests/index/test_topics.py",
        "tests/index/test_batches_undo.py",
    ),
    one(
        "partition by turn",
        f"{ENGINE}/usecases/partitioning.py",
        "    return (keys % np.uint64(partitions)).astype(np.int64)",
        "    return (np.arange(rows) + turn) % partitions",
        _MIXED,
    ),
)
