"""Planted bugs of payloads: a digest lost on its way, compared where nothing is decided, or not told."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import CLIENT, ENGINE, INDEX

_DIGESTS = "tests/index/claims/test_digests.py"
_CELLS = "tests/index/claims/test_cells.py"
_ENGINE = "tests/engine/usecases/test_payloads.py"
_HTTP = "tests/transports/decode/test_payloads.py"
_CLIENT = "tests/client/sync/test_payloads.py"
_PRINTS = "tests/hashing/test_payloads.py"
_HTTP_PAYLOADS = "service/oncegate/transports/decode/payloads.py"

PAYLOADS: tuple[Mutant, ...] = (
    one(
        "another payload is a duplicate",
        "service/oncegate/core/claims.py",
        "    (IdState.DONE_OTHER, Asker.REPEAT): _CONFLICT,",
        "    (IdState.DONE_OTHER, Asker.REPEAT): _DUPLICATE,",
        _CELLS,
        "tests/model/mixed/test_walks.py::test_walks_meet_all_that_the_model_is_about",
    ),
    one(
        "a payload is compared while it is only claimed",
        f"{INDEX}/table/kernels.py",
        "and slot >= 0 and state == _IS_DONE and",
        "and slot >= 0 and state != _ABSENT and",
        _DIGESTS,
        _CELLS,
    ),
    one(
        "no payload is another payload",
        f"{INDEX}/table/kernels.py",
        "return bool(first != 0 and second != 0 and first != second)",
        "return bool(second != 0 and first != second)",
        _DIGESTS,
    ),
    one(
        "twice in one request is the same",
        f"{INDEX}/table/kernels.py",
        "    _tell_apart(given, answers, verdicts)\n",
        "",
        _DIGESTS,
        "tests/index/claims/test_against_a_dict.py",
    ),
    one(
        "a takeover keeps the old payload",
        f"{INDEX}/table/kernels.py",
        "        slot_digests[slot] = digests[i] if digests.size > 0 else np.uint32(0)\n",
        "        slot_digests[slot] = digests[i] if old == 0 else old\n",
        _DIGESTS,
    ),
    one(
        "undo leaves the new payload",
        f"{INDEX}/table/kernels.py",
        "        _exchange(slots.digests, slot, digests, i)\n",
        "",
        _DIGESTS,
    ),
    one(
        "a move leaves payloads behind",
        f"{INDEX}/table/resize.py",
        "                slots.digests[base + target] = digests[i]\n",
        "                pass\n",
        _DIGESTS,
        "tests/index/table/test_kernels.py",
    ),
    one(
        "a new slot has the payload of whoever was there",
        f"{INDEX}/table/table.py",
        "        return digests.copy() if len(digests) else np.zeros(ids, np.uint32)",
        "        return digests.copy() if len(digests) else np.ones(ids, np.uint32)",
        _DIGESTS,
    ),
    one(
        "digests of what is taken over in the order of asking",
        f"{INDEX}/claims/decide.py",
        "digests[answers.actions == Action.TAKE_OVER][::-1]",
        "digests[answers.actions == Action.TAKE_OVER]",
        _ENGINE,
        "tests/index/claims/test_against_a_dict.py",
    ),
    one(
        "digests are not saved",
        f"{INDEX}/snapshot/claims_writer.py",
        '        digests = b"".join(self.digests)\n',
        '        digests = b""\n',
        _DIGESTS,
        _ENGINE,
    ),
    one(
        "ids with payloads are sealed",
        f"{INDEX}/claims/evict.py",
        "is_plain = (rows.beside[listed] & PAYLOADS == 0) & (rows.scoped[listed] == 0)",
        "is_plain = rows.scoped[listed] == 0",
        "tests/index/lsm/test_eviction.py",
    ),
    one(
        "ids with payloads share a row",
        f"{INDEX}/table/resize.py",
        "topics[row] != no_topic or beside[row] != 0 or scoped[row] != 0",
        "topics[row] != no_topic or scoped[row] != 0",
        _DIGESTS,
    ),
    one(
        "a digest of 0",
        "service/oncegate/hashing/payloads.py",
        "    digests[digests == 0] = 1\n",
        "",
        _PRINTS,
    ),
    one(
        "a null payload is an empty one",
        "service/oncegate/hashing/payloads.py",
        "digests[pc.is_null(column).to_numpy(zero_copy_only=False)] = self._null",
        "pass",
        _PRINTS,
    ),
    one(
        "a call is its ids whatever they come with",
        f"{ENGINE}/usecases/claims.py",
        "blake2b(digest + request.digests.tobytes(), digest_size=16)",
        "blake2b(digest, digest_size=16)",
        _ENGINE,
    ),
    one(
        "each partition has all payloads",
        f"{ENGINE}/usecases/produce.py",
        "        of_rows = request.digests[share.row_indices]\n",
        "        of_rows = request.digests[: len(share.row_indices)]\n",
        _ENGINE,
    ),
    one(
        "payloads before ids",
        _HTTP_PAYLOADS,
        "    return pairs[:, 0].tobytes(), np.ascontiguousarray(pairs[:, 1]).reshape(-1)",
        "    return pairs[:, 1].tobytes(), np.ascontiguousarray(pairs[:, 0]).reshape(-1)",
        _HTTP,
    ),
    one(
        "payload columns are part of the id",
        _HTTP_PAYLOADS,
        "    alone = table.drop_columns(list(names))\n",
        "    alone = table\n",
        _HTTP,
    ),
    one(
        "a conflict is dropped without asking",
        f"{CLIENT}/protocol/calls/attempt.py",
        "            yield from self._conflict(claimed, drops)\n",
        "            yield from self._conflict(claimed, True)\n",
        _CLIENT,
    ),
    one(
        "what is granted beside a conflict stays claimed",
        f"{CLIENT}/protocol/calls/attempt.py",
        '            yield from self.settle(claimed, "release")\n',
        "            yield from ()\n",
        _CLIENT,
    ),
    one(
        "a conflict counts as written",
        f"{CLIENT}/protocol/packed/verdicts.py",
        "others = pc.or_(self.conflicting, self.unresolved)",
        "others = self.unresolved",
        _CLIENT,
    ),
    one(
        "busy rows forget their payloads",
        f"{CLIENT}/spark/writers/claim_loop.py",
        "            payloads = [column.filter(again) for column in payloads]\n",
        "            payloads = []\n",
        _CLIENT,
    ),
)
