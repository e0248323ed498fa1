"""The planted bugs: each a change of the shipped source, and the ordinary tests that must turn red."""

from dataclasses import dataclass

INDEX = "service/oncegate/index"
ENGINE = "service/oncegate/engine"
LOG = "service/oncegate/ledgers/log"
CLIENT = "spark_client/oncegate_spark"


@dataclass(frozen=True)
class Mutant:
    """`edits`: (path, text that stands there just once, text in its place)."""

    name: str
    edits: tuple[tuple[str, str, str], ...]
    tests: tuple[str, ...]


def one(name: str, path: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, ((path, old, new),), tests)


def _token_per_job(docstring: str) -> tuple[str, str, str]:
    """The writer is pickled once, so what its __init__ makes is the same in every task and every attempt."""
    head = f"    {docstring}\n\n    def __init__(self, way: Way) -> None:\n        self.way = way\n"
    write = "\n    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:\n        token = "
    old, new = f"{head}{write}new_token()\n", f"{head}        self.token = new_token()\n{write}self.token\n"
    return f"{CLIENT}/datasource.py", old, new


_CELLS = "tests/index/test_cells.py"
_REPEATS = "tests/engine/test_repeats_and_asks.py"

PLANTED: tuple[Mutant, ...] = (
    one(
        "partial settle",
        f"{INDEX}/claims.py",
        "        for row in known.rows:\n            before = ",
        "        for row in known.rows[:1]:\n            before = ",
        "tests/index/test_claims.py",
        _CELLS,
        "tests/index/test_rebuild.py",
    ),
    one(
        "first completer",
        f"{INDEX}/kernels.py",
        "        slots.row[slot] = row\n    holders.slots[row] +=",
        "        if previous[i] == NO_ROW or holders.state[previous[i]] != _OPEN:\n"
        "            slots.row[slot] = row\n    holders.slots[row] +=",
        _CELLS,
        "tests/index/test_claims.py",
    ),
    Mutant(
        "repeat from a cache",
        (
            (
                f"{ENGINE}/claims.py",
                "        asked = self._index.ask(ask.token, ask.call, digest, ask.ids, now_ms)\n",
                "        cache = self.__dict__.setdefault('cache', {})\n"
                "        if (ask.token, ask.call) in cache:\n"
                "            return cache[ask.token, ask.call]\n"
                "        asked = self._index.ask(ask.token, ask.call, digest, ask.ids, now_ms)\n",
            ),
            (
                f"{ENGINE}/claims.py",
                "        return ClaimAnswer(claim, lease_ms, asked.verdicts, asked.numbers)\n",
                "        cache[ask.token, ask.call] = ClaimAnswer(claim, lease_ms, asked.verdicts, asked.numbers)\n"
                "        return cache[ask.token, ask.call]\n",
            ),
        ),
        (f"{_REPEATS}::test_a_late_repeat_of_a_claim_that_was_taken_over_is_busy",),
    ),
    one(
        "repeat grants more",
        "service/oncegate/core/decisions.py",
        "    (IdState.ABSENT, Asker.REPEAT): _REPEAT_BUSY,",
        "    (IdState.ABSENT, Asker.REPEAT): _FRESH,",
        _CELLS,
        _REPEATS,
    ),
    one(
        "settle by slot alone",
        "service/oncegate/core/decisions.py",
        "    (Verb.COMPLETE, ClaimState.RELEASED): _RELEASED,",
        '    (Verb.COMPLETE, ClaimState.RELEASED): SettleCell(Effect.MARK_DONE, "the slot says so", "nothing else"),',
        _CELLS,
    ),
    one(
        "first-fit reuse",
        f"{INDEX}/kernels.py",
        "        slot = find(slots, tag, place)\n        if slot < 0:\n            slot, new",
        "        slot = find(slots, tag, place)\n"
        "        at = np.int64(place) & (slots.row.size - 1)\n"
        "        while slots.row[at] != NO_ROW:\n"
        "            dead = holders.state[slots.row[at]]\n"
        "            if dead != _OPEN and dead != _DONE:\n"
        "                slots.tag[at], slots.place[at], slot = tag, place, at\n"
        "                break\n"
        "            at = (at + 1) & (slots.row.size - 1)\n"
        "        if slot < 0:\n            slot, new",
        "tests/index/test_slots_and_rows.py::test_a_dead_slot_is_taken_over_by_its_own_id_alone",
    ),
    one(
        "row reuse before sweep",
        f"{INDEX}/rows.py",
        "idle = self.used & ~self.kept & (self.holders.slots == 0) & (self.holders.pins == 0)",
        "idle = self.used & ~self.kept & (self.holders.pins == 0)",
        "tests/index/test_slots_and_rows.py",
    ),
    one(
        "verdict before durable",
        f"{ENGINE}/claims.py",
        "        await self._journal.committer.durable(rests_on)\n        self._count(asked)",
        "        self._count(asked)",
        "tests/engine/test_durable_before_said.py",
    ),
    Mutant(
        "token per job",
        (_token_per_job('"""df.write"""'), _token_per_job('"""df.writeStream"""')),
        (
            "tests/spark/test_killed_attempts.py::test_claim_suppresses_what_a_killed_worker_had_completed",
            "tests/spark/test_batch_writes.py::test_a_named_run_that_is_repeated_is_published_once",
        ),
    ),
    one(
        "abort by key",
        f"{ENGINE}/staging.py",
        "there = [token for token in dict.fromkeys(ask.tokens) if self._index.stage(ask.name, token) is not None]",
        "there = list(self._index.stages.get(ask.name, {}))",
        f"{_REPEATS}::test_an_abort_removes_the_stages_of_its_tokens_and_no_others",
    ),
    one(
        "XOR fingerprint",
        f"{INDEX}/rowprints.py",
        "int(limb.sum(dtype=np.uint64)) << (32 * place)",
        "int(np.bitwise_xor.reduce(limb)) << (32 * place)",
        "tests/unit/index_prints/test_rowprints.py::test_a_row_twice_is_not_another_row_twice",
    ),
    one(
        "digest read in commit()",
        f"{CLIENT}/writers/staged.py",
        "        read = messages[0].read\n        winners",
        "        from oncegate_spark.checkpoint import read_input\n\n"
        "        read = read_input(self.options.checkpoint)\n        winners",
        "tests/client/test_staged_commit.py",
    ),
    one(
        "ask not durable",
        f"{ENGINE}/staging.py",
        "        await journal.committer.durable(journal.record([asked]))\n",
        "        self._index.apply(0, asked)\n",
        f"{_REPEATS}::test_a_second_write_is_known_as_one_after_the_gateway_was_killed",
    ),
    one(
        "drain without fingerprint",
        f"{ENGINE}/staging.py",
        "            return StageAnswer(True, ask.rows.rows, fingerprint)",
        "            return StageAnswer(True, ask.rows.rows, bytes(16))",
        f"{_REPEATS}::test_a_replay_whose_input_is_unknown_is_compared_by_its_rows",
    ),
    Mutant(
        "fetch past the durable frame",
        (
            (
                f"{LOG}/ledger.py",
                "            self._write_frame(len(entries), encode_body(Body(entries, changes)))",
                "            self._apply(changes)\n"
                "            self._write_frame(len(entries), encode_body(Body(entries, changes)))",
            ),
            (
                f"{LOG}/ledger.py",
                "            self._apply(changes)\n            if entries:",
                "            if entries:",
            ),
        ),
        ("tests/faults/ledger/test_failing_disk.py",),
    ),
    one(
        "witness ignored",
        f"{LOG}/recovery.py",
        "        _require_witnessed(place, walk, seen)\n    require_reach",
        "    require_reach",
        "tests/faults/ledger/test_damage.py::test_a_cut_at_each_byte_of_the_last_frame_is_refused",
    ),
    one(
        "busy is success",
        f"{CLIENT}/settling.py",
        "            again = claimed.verdicts.open\n",
        "            again = pc.and_(claimed.verdicts.open, False)\n",
        "tests/client/test_settling.py",
        "tests/client/test_sinks.py",
    ),
)
