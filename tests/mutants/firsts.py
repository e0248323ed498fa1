"""Planted bugs of firsts: a location or result of another id, a lost one, and one that is not durable."""

from tests.mutants.edits import delete, insert, move, replace, shift
from tests.mutants.mutant import Mutant, one

_FIRSTS = "tests/engine/usecases/test_firsts.py"
_HTTP = "tests/transports/http/test_firsts.py"
_ROWS = "tests/index/claims/test_firsts.py"
_SENT = "tests/faults/kafka/test_sent_places.py"
_SEQUENCES = "tests/engine/usecases/test_places_of_sequences.py"
_ELSEWHERE = "tests/engine/usecases/test_places_elsewhere.py"

FIRSTS: tuple[Mutant, ...] = (
    one(
        "a result is returned to ids of another claim",
        "oncegate.index.table.rows::Rows.give_back",
        delete("self.results.drop(...)"),
        _ROWS,
    ),
    one(
        "a located place is another request's",
        "oncegate.engine.commit.places::Places.located",
        replace(
            "read is None or not isinstance(entry, Produced) or entry.claim != unread.claim",
            "read is None or not isinstance(entry, Produced)",
        ),
        _FIRSTS,
    ),
    one(
        "a place is another row's of its request",
        "oncegate.engine.commit.places::_order",
        replace("np.concatenate([np.flatnonzero(is_fresh), taken_at])", "np.arange(fresh + taken, dtype=np.int64)"),
        _FIRSTS,
    ),
    one(
        "a row alone is where its entry begins",
        "oncegate.index.claims.apply::_grant",
        delete("rows.first_offset[row] = _first_offset(grant, takeover)"),
        _FIRSTS,
    ),
    one(
        "an id that is not in the entry has a place",
        "oncegate.engine.commit.places::rows_in",
        replace("np.where((written[at] == ids).all(axis=1), order[at], -1)", "order[at]"),
        "tests/engine/commit/test_places.py",
    ),
    one(
        "as many entries are read as there are",
        "oncegate.index.claims.firsts::_unread",
        replace(
            "sorted(zip(first.tolist(), unique.tolist(), strict=True))[:most]",
            "sorted(zip(first.tolist(), unique.tolist(), strict=True))",
        ),
        _FIRSTS,
    ),
    one(
        "a place is read before it is durable",
        "oncegate.engine.usecases.claims::Claims.alone",
        delete("await self.journal.group_commit.durable(...)"),
        _FIRSTS,
    ),
    one(
        "a repeated request gets wrong locations of its rows",
        "oncegate_spark.protocol.calls.attempt::AttemptCalls._settled",
        replace(
            "[index for index, is_open in zip(at, verdicts.open.to_pylist(), strict=True) if is_open]",
            "at[:rows.num_rows]",
        ),
        "tests/client/sync/test_produce_by_id.py::test_row_offsets_of_repeated_rows_are_at_the_positions_of_their_rows",
    ),
    one(
        "a result is lost by a restart",
        "oncegate.index.claims.replay::_Replay.take",
        insert("self._store.rows.results.drop(change.pinned)", after="settle(...)"),
        _FIRSTS,
    ),
    one(
        "a result is lost by a compaction",
        "oncegate.index.claims.parts::ClaimParts.__init__",
        replace("lambda: self._results", "list"),
        _FIRSTS,
    ),
    one(
        "a snapshot gives a result to another row",
        "oncegate.index.claims.snapshot::_ClaimsSnapshot.__init__",
        replace("int(self._numbers[row])", "row"),
        _ROWS,
    ),
    one(
        "a result that the disk refused stays",
        "oncegate.index.claims.apply::undo",
        delete("rows.results.drop(...)"),
        _FIRSTS,
    ),
    one(
        "results take all the memory there is",
        "oncegate.index.table.rows::Results._trim",
        replace("self.size_bytes > self._most_bytes and self.by_row", "False"),
        _FIRSTS,
    ),
    one(
        "a row with a result is shared",
        "oncegate.index.table.rows::Results.put",
        delete("self._rows.beside[row] |= RESULT"),
        _ROWS,
    ),
    one(
        "the second result wins",
        "oncegate.engine.usecases.claims::Claims.settle",
        replace("result_of(self._store, claim)", "result"),
        _FIRSTS,
    ),
    one(
        "a retry does not get the rows that its second try wrote",
        "oncegate.engine.usecases.produce::Records._record",
        replace(
            "journal.random(16) if decision is None or decision.claim is None else decision.claim", "journal.random(16)"
        ),
        _FIRSTS,
    ),
    one(
        "a range among taken rows is returned twice",
        "oncegate.index.claims.firsts::written_by",
        replace("spans and spans[-1][0] == partition and (first <= spans[-1][1] + spans[-1][2])", "False"),
        _FIRSTS,
    ),
    one(
        "an unknown place is the topic's first row",
        "oncegate.transports.http.answers::_firsts_packed",
        replace("np.where(known, located.topic[at], _UNKNOWN)", "np.where(known, located.topic[at], 0)"),
        _HTTP,
    ),
    one(
        "a row in Kafka is one offset further",
        "oncegate.ports.row_places::_offsets",
        replace(
            "np.arange(row_range.first_offset, row_range.first_offset + row_range.rows, dtype=np.int64)",
            "np.arange(row_range.first_offset + 1, row_range.first_offset + row_range.rows + 1, dtype=np.int64)",
        ),
        _SENT,
    ),
    one(
        "a row in Kafka is in its neighbour's partition",
        "oncegate.ports.row_places::RowPlaces.of_rows",
        replace("(placed_numbers[order], placed_offsets[order])", "(placed_numbers[:], placed_offsets[:])"),
        _SENT,
    ),
    one(
        "a range continues over others' records",
        "oncegate.ledgers.kafka.rows.stream::RowStream.written",
        replace("offset == last.first_offset + last.rows", "offset >= last.first_offset + last.rows"),
        _SENT,
    ),
    one(
        "a range begins again where its batches follow each other",
        "oncegate.ledgers.kafka.rows.stream::RowStream.written",
        replace("last.first_offset + last.rows", "last.first_offset + last.rows + 1"),
        _SENT,
    ),
    one(
        "offsets of an aborted try are returned",
        "oncegate.ledgers.kafka.shard.ledger::KafkaLedger._append.changes_of",
        insert("ranges.report()", before="self._fold.sent_to.add(...)"),
        f"{_SENT}::test_offsets_of_an_aborted_transaction_are_not_reported",
    ),
    one(
        "places in Kafka are those of the entry before",
        "oncegate.engine.commit.journal::Journal.position_of",
        replace("self.group_commit.next_position + number", "self.group_commit.next_position + number - 1"),
        _ELSEWHERE,
    ),
    one(
        "an id alone in Kafka is where it was counted",
        "oncegate.index.claims.firsts::firsts_of",
        replace(
            "(rows.granted[found] == 1) & (rows.first_offset[found] >= 0) & (not elsewhere)",
            "(rows.granted[found] == 1) & (rows.first_offset[found] >= 0)",
        ),
        _ELSEWHERE,
    ),
    one(
        "locations that were not requested are waited for",
        "oncegate.engine.usecases.produce::Records._earlier_ranges",
        replace("deadline if request.locate else deadline.at_most(UNASKED_MS)", "deadline"),
        _ELSEWHERE,
    ),
    one(
        "a location that brokers did not give is returned in part",
        "oncegate.engine.commit.places::Places.ranges",
        replace("places is None or not places.is_known()", "places is None"),
        _ELSEWHERE,
    ),
    one(
        "a repeat by sequence gets the rows of the previous call",
        "oncegate.engine.commit.places::Places.of_call",
        replace(
            "range(completed - 1 - entry.written_before, completed - 1)",
            "range(completed - 2 - entry.written_before, completed - 2)",
        ),
        _SEQUENCES,
    ),
    one(
        "a repeat by sequence gets the end of another call",
        "oncegate.engine.commit.places::Places.of_call",
        replace("(entry.producer_id, entry.epoch, entry.call) != call", "False"),
        _SEQUENCES,
    ),
    one(
        "a repeat by sequence learns one partition of several",
        "oncegate.engine.usecases.produce::Records._sequenced",
        replace("len(written)", "1"),
        _SEQUENCES,
    ),
    one(
        "places are remembered without end",
        "oncegate.engine.commit.places::Places.remember",
        delete("self._ranges += len(places.ranges)"),
        "tests/engine/commit/test_places.py",
    ),
    one(
        "one range fewer is remembered than may be",
        "oncegate.engine.commit.places::Places.remember",
        shift("self._ranges > REMEMBERED"),
        "tests/engine/commit/test_places.py",
    ),
    one(
        "the last compacted entry is read for its places",
        "oncegate.engine.commit.places::Places._read",
        shift("position <= self._marks.compacted_to"),
        "tests/engine/commit/test_places.py",
    ),
    one(
        "a commit's places are those of the entry of its topics",
        "oncegate.engine.usecases.batches::Batches._publish",
        move("entries += met", after="spans, outputs = self._published(...)"),
        f"{_ELSEWHERE}::test_a_commit_and_its_repeats_return_the_offsets_of_the_batch",
    ),
)
