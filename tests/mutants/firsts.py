"""Planted bugs of firsts: a place or a result that is another's, one that is lost, one that nobody made durable."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import CLIENT, ENGINE, INDEX

_FIRSTS = "tests/engine/usecases/test_firsts.py"
_HTTP = "tests/transports/http/test_firsts.py"
_ROWS = "tests/index/claims/test_firsts.py"
_SENT = "tests/faults/kafka/test_sent_places.py"
_SEQUENCES = "tests/engine/usecases/test_places_of_sequences.py"
_ELSEWHERE = "tests/engine/usecases/test_places_elsewhere.py"

FIRSTS: tuple[Mutant, ...] = (
    one(
        "a result is returned to ids of another claim",
        f"{INDEX}/table/rows.py",
        "            self.results.drop(rows.tolist())\n",
        "            pass\n",
        _ROWS,
    ),
    one(
        "a located place is another request's",
        f"{ENGINE}/commit/places.py",
        " or entry.claim != unread.claim:",
        ":",
        _FIRSTS,
    ),
    one(
        "a place is another row's of its request",
        f"{ENGINE}/commit/places.py",
        "    return np.concatenate([np.flatnonzero(is_fresh), taken_at])\n",
        "    return np.arange(fresh + taken, dtype=np.int64)\n",
        _FIRSTS,
    ),
    one(
        "a row alone is where its entry begins",
        f"{INDEX}/claims/apply.py",
        "            rows.first_offset[row] = _first_offset(grant, takeover)\n",
        "            pass\n",
        _FIRSTS,
    ),
    one(
        "an id that is not in the entry has a place",
        f"{ENGINE}/commit/places.py",
        "    return np.where((written[at] == ids).all(axis=1), order[at], -1)\n",
        "    return order[at]\n",
        "tests/engine/commit/test_places.py",
    ),
    one(
        "as many entries are read as there are",
        f"{INDEX}/claims/firsts.py",
        "strict=True))[:most]\n",
        "strict=True))\n",
        _FIRSTS,
    ),
    one(
        "a place is read before it is durable",
        f"{ENGINE}/usecases/claims.py",
        "        await self._journal.group_commit.durable(decided.rests_on)\n",
        "",
        _FIRSTS,
    ),
    one(
        "places of rows that are asked for again stand elsewhere",
        f"{CLIENT}/protocol/calls/attempt.py",
        "at = [one for one, is_open in zip(at, verdicts.open.to_pylist(), strict=True) if is_open]\n",
        "at = at[: rows.num_rows]\n",
        "tests/client/sync/test_produce_by_id.py::test_places_of_rows_that_were_asked_for_again_stand_where_those_rows_were_given",
    ),
    one(
        "a result is lost by a restart",
        f"{INDEX}/claims/replay.py",
        "            settle(self._store, change)\n",
        "            settle(self._store, change)\n            self._store.rows.results.drop(change.pinned)\n",
        _FIRSTS,
    ),
    one(
        "a result is lost by a compaction",
        f"{INDEX}/snapshot/pieces.py",
        "        (_RESULTS, msgspec.msgpack.encode(results)),\n",
        "        (_RESULTS, msgspec.msgpack.encode([])),\n",
        _FIRSTS,
    ),
    one(
        "a snapshot gives a result to another row",
        f"{INDEX}/snapshot/claims_writer.py",
        "((int(self._numbers[row]), result) for row,",
        "((row, result) for row,",
        _ROWS,
    ),
    one(
        "a result that the disk refused stays",
        f"{INDEX}/claims/apply.py",
        "        rows.results.drop([row])\n",
        "",
        _FIRSTS,
    ),
    one(
        "results take all the memory there is",
        f"{INDEX}/table/rows.py",
        "        while self.size_bytes > self._most_bytes and self.by_row:\n",
        "        while False:\n",
        _FIRSTS,
    ),
    one(
        "a row with a result is shared",
        f"{INDEX}/table/rows.py",
        "            self._rows.beside[row] |= RESULT\n",
        "",
        _ROWS,
    ),
    one(
        "the second result wins",
        f"{ENGINE}/usecases/claims.py",
        "        kept = self._index.result_of(claim) if verb is Verb.COMPLETE else None\n",
        "        kept = result if verb is Verb.COMPLETE else None\n",
        _FIRSTS,
    ),
    one(
        "a retry is not told what its second try wrote",
        f"{ENGINE}/usecases/produce.py",
        "        claim = journal.random(16) if decision is None or decision.claim is None else decision.claim\n",
        "        claim = journal.random(16)\n",
        _FIRSTS,
    ),
    one(
        "a range among taken rows is told twice",
        f"{INDEX}/claims/firsts.py",
        "        if spans and spans[-1][0] == partition and first <= spans[-1][1] + spans[-1][2]:\n",
        "        if False:\n",
        _FIRSTS,
    ),
    one(
        "an unknown place is the topic's first row",
        "service/oncegate/transports/http/codecs.py",
        '    places["topic"] = np.where(known, located.topic[at], _UNKNOWN)\n',
        '    places["topic"] = np.where(known, located.topic[at], 0)\n',
        _HTTP,
    ),
    one(
        "a row in Kafka is one offset further",
        "service/oncegate/ports/row_places.py",
        "    return np.arange(one.first_offset, one.first_offset + one.rows, dtype=np.int64)\n",
        "    return np.arange(one.first_offset + 1, one.first_offset + one.rows + 1, dtype=np.int64)\n",
        _SENT,
    ),
    one(
        "a row in Kafka is in its neighbour's partition",
        "service/oncegate/ports/row_places.py",
        "        placed_numbers[order], placed_offsets[order] = numbers, offsets\n",
        "        placed_numbers[:], placed_offsets[:] = numbers, offsets\n",
        _SENT,
    ),
    one(
        "a range goes on over records of others",
        "service/oncegate/ledgers/kafka/rows/stream.py",
        "offset == last.first_offset + last.rows and",
        "offset >= last.first_offset + last.rows and",
        _SENT,
    ),
    one(
        "a range begins again where its batches follow each other",
        "service/oncegate/ledgers/kafka/rows/stream.py",
        "offset == last.first_offset + last.rows and",
        "offset == last.first_offset + last.rows + 1 and",
        _SENT,
    ),
    one(
        "offsets of an aborted try are told",
        "service/oncegate/ledgers/kafka/shard/ledger.py",
        "                sent = ranges.sent(first_offsets)\n",
        "                sent = ranges.sent(first_offsets)\n                ranges.report()\n",
        f"{_SENT}::test_offsets_of_an_aborted_transaction_are_told_to_nobody",
    ),
    one(
        "places in Kafka are those of the entry before",
        f"{ENGINE}/commit/journal.py",
        "        return self.group_commit.next_position + number\n",
        "        return self.group_commit.next_position + number - 1\n",
        _ELSEWHERE,
    ),
    one(
        "an id alone in Kafka is where it was counted",
        f"{INDEX}/claims/firsts.py",
        " & (rows.first_offset[found] >= 0) & (not elsewhere)\n",
        " & (rows.first_offset[found] >= 0)\n",
        _ELSEWHERE,
    ),
    one(
        "places that nobody asked for are waited for",
        f"{ENGINE}/usecases/produce.py",
        "deadline if request.locate else deadline.at_most(UNASKED_MS)",
        "deadline",
        _ELSEWHERE,
    ),
    one(
        "a place that no broker told is told in part",
        f"{ENGINE}/commit/places.py",
        "                if places is None or not places.is_known():\n",
        "                if places is None:\n",
        _ELSEWHERE,
    ),
    one(
        "a repeat by sequence is told the rows of the call before",
        f"{ENGINE}/commit/places.py",
        "range(completed - 1 - entry.written_before, completed - 1)",
        "range(completed - 2 - entry.written_before, completed - 2)",
        _SEQUENCES,
    ),
    one(
        "a repeat by sequence is told the end of another call",
        f"{ENGINE}/commit/places.py",
        "(entry.producer_id, entry.epoch, entry.call) != call",
        "False",
        _SEQUENCES,
    ),
    one(
        "a repeat by sequence learns one partition of several",
        f"{ENGINE}/usecases/produce.py",
        "            written_before = 0 if self._in_shadow else len(written)\n",
        "            written_before = 0 if self._in_shadow else 1\n",
        _SEQUENCES,
    ),
)
