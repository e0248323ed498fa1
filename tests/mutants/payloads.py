"""Planted bugs of payloads: a digest that is lost, compared where nothing is decided, or not reported."""

from tests.mutants.edits import cell, delete, replace
from tests.mutants.mutant import Mutant, one

_DIGESTS = "tests/index/claims/test_digests.py"
_CELLS = "tests/index/claims/test_cells.py"
_ENGINE = "tests/engine/usecases/test_payloads.py"
_HTTP = "tests/transports/decode/test_payloads.py"
_CLIENT = "tests/client/sync/test_payloads.py"
_PRINTS = "tests/hashing/test_payloads.py"

PAYLOADS: tuple[Mutant, ...] = (
    one(
        "another payload is a duplicate",
        "oncegate.core.claims::CLAIM",
        cell("(IdState.DONE_OTHER, Asker.REPEAT)", "_DUPLICATE"),
        _CELLS,
        "tests/model/mixed/test_walks.py::test_walks_meet_all_that_the_model_is_about",
    ),
    one(
        "a payload is compared while it is only claimed",
        "oncegate.index.table.kernels::decide",
        replace("state == _IS_DONE", "state != _ABSENT"),
        _DIGESTS,
        _CELLS,
    ),
    one(
        "no payload is another payload",
        "oncegate.index.table.kernels::_differ",
        replace("first != 0 and second != 0 and (first != second)", "second != 0 and first != second"),
        _DIGESTS,
    ),
    one(
        "twice in one request is the same",
        "oncegate.index.table.kernels::decide",
        delete("_tell_apart(...)"),
        _DIGESTS,
        "tests/index/claims/test_against_a_dict.py",
    ),
    one(
        "a takeover keeps the old payload",
        "oncegate.index.table.kernels::_exchange",
        replace("digests[i] if digests.size > 0 else np.uint32(0)", "digests[i] if old == 0 else old"),
        _DIGESTS,
    ),
    one(
        "undo leaves the new payload",
        "oncegate.index.table.kernels::restore",
        delete("_exchange(...)"),
        _DIGESTS,
    ),
    one(
        "a move leaves payloads behind",
        "oncegate.index.table.resize::move",
        delete("slots.digests[base + target] = digests[i]"),
        _DIGESTS,
        "tests/index/table/test_kernels.py",
    ),
    one(
        "a new slot has the payload of its previous id",
        "oncegate.index.table.table::Table._digests_of",
        replace("np.zeros", "np.ones"),
        _DIGESTS,
    ),
    one(
        "digests of what is taken over in the order of asking",
        "oncegate.index.claims.decide::_in_order",
        replace("digests[answers.actions == Action.TAKE_OVER][::-1]", "digests[answers.actions == Action.TAKE_OVER]"),
        _ENGINE,
        "tests/index/claims/test_against_a_dict.py",
    ),
    one(
        "digests are not saved",
        "oncegate.index.claims.snapshot::_Parts.pieces",
        replace("b''.join(self.digests)", "b''"),
        _DIGESTS,
        _ENGINE,
    ),
    one(
        "ids with payloads are sealed",
        "oncegate.index.claims.evict::pick",
        replace("(rows.beside[listed] & PAYLOADS == 0) & (rows.scoped[listed] == 0)", "rows.scoped[listed] == 0"),
        "tests/index/lsm/test_eviction.py",
    ),
    one(
        "ids with payloads share a row",
        "oncegate.index.table.resize::pool",
        replace(
            "topics[row] != no_topic or beside[row] != 0 or scoped[row] != 0",
            "topics[row] != no_topic or scoped[row] != 0",
        ),
        _DIGESTS,
    ),
    one(
        "a digest of 0",
        "oncegate.hashing.payloads::_cut",
        delete("digests[digests == 0] = 1"),
        _PRINTS,
    ),
    one(
        "a null payload is an empty one",
        "oncegate.hashing.payloads::PayloadDigester.of_columns",
        delete("digests[pc.is_null(column).to_numpy(zero_copy_only=False)] = self._null"),
        _PRINTS,
    ),
    one(
        "a call is its ids whatever they come with",
        "oncegate.engine.usecases.claim_batching::digest_of",
        replace("digest + request.digests.tobytes()", "digest"),
        _ENGINE,
    ),
    one(
        "each partition has all payloads",
        "oncegate.engine.usecases.produce::_ids",
        replace("request.digests[share.row_indices]", "request.digests[:len(share.row_indices)]"),
        _ENGINE,
    ),
    one(
        "payloads before ids",
        "oncegate.transports.decode.payloads::split_packed",
        replace(
            "(pairs[:, 0].tobytes(), np.ascontiguousarray(pairs[:, 1]).reshape(-1))",
            "(pairs[:, 1].tobytes(), np.ascontiguousarray(pairs[:, 0]).reshape(-1))",
        ),
        _HTTP,
    ),
    one(
        "payload columns are part of the id",
        "oncegate.transports.decode.payloads::of_arrow",
        replace("table.drop_columns(list(names))", "table"),
        _HTTP,
    ),
    one(
        "a conflict is dropped without asking",
        "oncegate_spark.protocol.calls.attempt::AttemptCalls._claim",
        replace("self._conflict(claimed, drops)", "self._conflict(claimed, True)"),
        _CLIENT,
    ),
    one(
        "ids granted beside a conflict stay claimed",
        "oncegate_spark.protocol.calls.attempt::AttemptCalls._give_back",
        replace("self.settle(claimed, 'release')", "()"),
        _CLIENT,
    ),
    one(
        "a conflict counts as written",
        "oncegate_spark.protocol.packed::Verdicts.dropped",
        replace("pc.or_(self.conflicting, self.unresolved)", "self.unresolved"),
        _CLIENT,
    ),
    one(
        "busy rows forget their payloads",
        "oncegate_spark.spark.writers.claim_loop::Settler._settle",
        replace("[column.filter(again) for column in payloads]", "[]"),
        _CLIENT,
    ),
)
