"""Planted bugs of payloads that come with sequences."""

from tests.mutants.edits import delete, replace, shift, without
from tests.mutants.mutant import Mutant, one

_UNIT = "tests/index/producers/test_digests.py"
_ENGINE = "tests/engine/usecases/test_sequence_payloads.py"

SEQUENCE_PAYLOADS: tuple[Mutant, ...] = (
    one(
        "payloads of sequences are not compared",
        "oncegate.index.producers.decide::decide",
        replace("digests is not None", "False"),
        _UNIT,
    ),
    one(
        "a sequence is compared with its neighbour's payload",
        "oncegate.index.producers.digests::Digests.differ",
        replace("np.searchsorted(self.sequences, sequences)", "np.searchsorted(self.sequences, sequences, 'right')"),
        _UNIT,
    ),
    one(
        "a payload that is not stored is compared with a stored one",
        "oncegate.index.producers.digests::Digests.differ",
        replace("self.sequences[at] == sequences", "np.ones(len(sequences), np.bool_)"),
        _UNIT,
    ),
    one(
        "an ack keeps the payload of its last sequence",
        "oncegate.index.producers.digests::Digests.above",
        without("'right'"),
        _UNIT,
    ),
    one(
        "an ack forgets the payload of the sequence after its last",
        "oncegate.index.producers.digests::Digests.above",
        replace("np.uint64(watermark)", "np.uint64(watermark + 1)"),
        _UNIT,
    ),
    one(
        "a sequence granted again keeps its first payload too",
        "oncegate.index.producers.digests::Digests.replaced",
        replace("~np.isin(self.sequences[begin:end], sequences)", "np.ones(end - begin, np.bool_)"),
        _UNIT,
    ),
    Mutant(
        "payloads of what is taken over are those of what is new",
        (
            ("oncegate.index.producers.digests::Digests.replaced", replace("(sequences, digests)", "sequences")),
            (
                "oncegate.index.producers.digests::Digests.replaced",
                replace("(sequences[order], digests[order] if len(digests) else digests)", "sequences[order]"),
            ),
        ),
        (_UNIT,),
    ),
    one(
        "a payload that was taken back is kept",
        "oncegate.index.producers.apply::_claim.undo",
        delete("store.keep_digests(...)"),
        _UNIT,
    ),
    one(
        "payloads that an ack forgot are gone when it is taken back",
        "oncegate.index.producers.apply::_ack.undo",
        delete("store.keep_digests(...)"),
        _UNIT,
    ),
    one(
        "a payload is kept before what is granted is decided",
        "oncegate.engine.usecases.producers::Producers.claimed",
        replace(
            "(digests[decision.actions == action] for action in (ProducerAction.GRANT, ProducerAction.TAKE_OVER))",
            "(digests[:count_of(decision.fresh) + count_of(decision.taken)] for _ in range(1))",
        ),
        _ENGINE,
    ),
    one(
        "payloads are kept without end",
        "oncegate.engine.usecases.producers::Producers.decide",
        replace("digests is not None and granted and (self._store.digests + granted > kept_max)", "False"),
        _ENGINE,
    ),
    one(
        "one payload fewer is kept than may be",
        "oncegate.engine.usecases.producers::Producers.decide",
        shift("self._store.digests + granted > kept_max"),
        _ENGINE,
    ),
    one(
        "a snapshot leaves out the payloads of sequences",
        "oncegate.index.producers.snapshot::_restored",
        without("digests="),
        _UNIT,
    ),
    one(
        "a conflict of sequences is taken for a duplicate by the client",
        "oncegate_spark.protocol.calls.producers::ProducerCalls.produce",
        replace("not drops", "False"),
        "tests/client/sync/test_sequence_payloads.py",
    ),
)
