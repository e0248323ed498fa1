"""Planted bugs of payloads that come with sequences."""

from tests.mutants.mutant import Mutant, one

_INDEX = "service/oncegate/index/producers"
_DIGESTS = f"{_INDEX}/digests.py"
_UNIT = "tests/index/producers/test_digests.py"
_ENGINE = "tests/engine/usecases/test_sequence_payloads.py"

SEQUENCE_PAYLOADS: tuple[Mutant, ...] = (
    one(
        "payloads of sequences are not compared",
        f"{_INDEX}/decide.py",
        "    if digests is not None:\n",
        "    if False:\n",
        _UNIT,
    ),
    one(
        "a sequence is compared with its neighbour's payload",
        _DIGESTS,
        "np.minimum(np.searchsorted(self.sequences, sequences), len(self) - 1)",
        'np.minimum(np.searchsorted(self.sequences, sequences, "right"), len(self) - 1)',
        _UNIT,
    ),
    one(
        "what is not kept is compared with what is",
        _DIGESTS,
        "        differ: np.ndarray[tuple[int], np.dtype[np.bool_]] = self.sequences[at] == sequences\n",
        "        differ: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.ones(len(sequences), np.bool_)\n",
        _UNIT,
    ),
    one(
        "an ack keeps the payload of its last sequence",
        _DIGESTS,
        'np.uint64(watermark), "right"))',
        "np.uint64(watermark)))",
        _UNIT,
    ),
    one(
        "an ack forgets the payload of the sequence after its last",
        _DIGESTS,
        'np.uint64(watermark), "right"))',
        'np.uint64(watermark + 1), "right"))',
        _UNIT,
    ),
    one(
        "what is granted again keeps its first payload beside",
        _DIGESTS,
        "        kept = ~np.isin(self.sequences[begin:end], sequences)\n",
        "        kept = np.ones(end - begin, np.bool_)\n",
        _UNIT,
    ),
    one(
        "payloads of what is taken over are those of what is new",
        _DIGESTS,
        "            sequences, digests = sequences[order], digests[order] if len(digests) else digests\n",
        "            sequences = sequences[order]\n",
        _UNIT,
    ),
    one(
        "a payload that was taken back is kept",
        f"{_INDEX}/apply.py",
        "        store.keep_digests(producer, digests_before)\n",
        "",
        _UNIT,
    ),
    one(
        "a payload is kept before what is granted is decided",
        "service/oncegate/engine/usecases/producers.py",
        "(digests[decision.actions == action] for action in (Action.GRANT, Action.TAKE_OVER))",
        "(digests[: count_of(decision.fresh) + count_of(decision.taken)] for _ in range(1))",
        _ENGINE,
    ),
    one(
        "payloads are kept without end",
        "service/oncegate/engine/usecases/producers.py",
        "        if digests is not None and granted and self._index.store.digests + granted > kept_max:\n",
        "        if False:\n",
        _ENGINE,
    ),
    one(
        "one payload fewer is kept than may be",
        "service/oncegate/engine/usecases/producers.py",
        "self._index.store.digests + granted > kept_max:\n",
        "self._index.store.digests + granted >= kept_max:\n",
        _ENGINE,
    ),
    one(
        "a snapshot leaves out the payloads of sequences",
        f"{_INDEX.replace('producers', 'snapshot')}/producers.py",
        "intervals=Intervals(first, last, label), digests=digests)",
        "intervals=Intervals(first, last, label))",
        _UNIT,
    ),
    one(
        "a conflict of sequences is taken for a duplicate by the client",
        "spark_client/oncegate_spark/protocol/calls/producers.py",
        "        if not drops:\n            raise conflict(",
        "        if False:\n            raise conflict(",
        "tests/client/sync/test_sequence_payloads.py",
    ),
)
