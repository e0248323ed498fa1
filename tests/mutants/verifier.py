"""Planted bugs of the verifier: a kind that is mistaken, a repair that goes round the ledger, a run that forgets."""

from tests.mutants.mutant import Mutant, one

_ROOM = "service/oncegate/verifier"
_COMPARE = "tests/verifier/test_compare.py"
_TOPICS = "tests/verifier/test_gateway_topics.py"
_INTERRUPTED = "tests/verifier/test_interrupted.py"

VERIFIER: tuple[Mutant, ...] = (
    one(
        "ids that share the first word of their hash are taken for one",
        f"{_ROOM}/compare.py",
        "    new[1:] = (rows[1:, 0] != rows[:-1, 0]) | (rows[1:, 1] != rows[:-1, 1])\n",
        "    new[1:] = rows[1:, 0] != rows[:-1, 0]\n",
        _COMPARE,
    ),
    one(
        "what the ledger knows and the output lacks is taken for not written",
        f"{_ROOM}/compare.py",
        "[Kind.NOT_WRITTEN, Kind.HELD, Kind.MISSING]",
        "[Kind.NOT_WRITTEN, Kind.HELD, Kind.NOT_WRITTEN]",
        f"{_TOPICS}::test_each_planted_fault_is_named_by_its_id_and_place",
    ),
    one(
        "an id that is doubled is well",
        f"{_ROOM}/compare.py",
        "np.where(outputs == 1, once, int(Kind.DOUBLED))",
        "once",
        f"{_TOPICS}::test_each_planted_fault_is_named_by_its_id_and_place",
    ),
    one(
        "a repair goes round the ledger: rows are produced without their ids",
        f"{_ROOM}/sources/gateway.py",
        '        query = urlencode({"id_col": ",".join(columns), "id_set": id_set})\n',
        '        query = urlencode({"id_col": ",".join(columns), "id_set": token})\n',
        f"{_TOPICS}::test_what_the_ledger_knows_as_written_is_refused_and_not_doubled",
    ),
    one(
        "a repair that goes on sends its rows under another call",
        f"{_ROOM}/repair.py",
        "        save(folder, state)\n",
        "        save(folder, State(state.identity, state.key, '0' * 32))\n",
        f"{_INTERRUPTED}::test_a_repair_that_was_interrupted_writes_each_row_once",
    ),
    one(
        "a run does not keep what it has read of the output",
        f"{_ROOM}/run.py",
        "                if runs.is_full:\n                    self._keep_output(runs)\n",
        "                pass\n",
        f"{_INTERRUPTED}::test_what_was_read_is_not_read_again",
    ),
    one(
        "a run goes on with the state of another question",
        f"{_ROOM}/state.py",
        "    if state.identity != identity:\n",
        "    if False:\n",
        f"{_INTERRUPTED}::test_a_state_of_another_question_is_refused_with_what_differs",
    ),
    one(
        "what was written past the ledger is called well",
        f"{_ROOM}/run.py",
        "findings.change(row + at[told == Told.KNOWN], Kind.OK)",
        "findings.change(row + at, Kind.OK)",
        f"{_TOPICS}::test_what_was_written_past_the_ledger_is_told_from_what_is_ok",
    ),
)
