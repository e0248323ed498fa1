"""Planted bugs of dedup scopes: an id that is known outside its scope, or not within it."""

from tests.mutants.edits import replace
from tests.mutants.mutant import Mutant, one

_HTTP = "tests/transports/http/test_id_sets.py"
_PRINTS = "tests/hashing/test_ids.py"
_TOPICS = f"{_HTTP}::test_the_same_ids_are_written_once_to_each_of_two_topics"
_LANES = "tests/client/spark/test_sequenced.py::test_a_source_goes_to_two_targets_whole"

ID_SETS: tuple[Mutant, ...] = (
    one(
        "an id is one in all sets",
        "oncegate.hashing.ids::Fingerprinter.__init__",
        replace(
            ("(b' %d' % generation if generation else b'') + (b':' + id_set.encode() if id_set else b'')"),
            "b' %d' % generation if generation else b''",
        ),
        _PRINTS,
        _TOPICS,
    ),
    one(
        "ids of several columns are one in all sets",
        "oncegate.hashing.ids::Fingerprinter.__init__",
        replace("b'joined ids' + name", "b'joined ids'"),
        f"{_PRINTS}::test_an_id_has_another_print_in_every_set_and_by_every_door",
    ),
    one(
        "rows of all topics are of one set",
        "oncegate.engine.names::produced",
        replace("topic", "CLAIMED"),
        _TOPICS,
    ),
    one(
        "the set that is named is not looked at",
        "oncegate.engine.names::chosen",
        replace("named is None", "named is None or own"),
        f"{_HTTP}::test_what_names_one_set_meets_in_it",
    ),
    one(
        "the set of a packed body is not read",
        "oncegate.transports.http.routes.claims::_request_of_raw",
        replace(
            "call.serving.fingerprints(id_set, CLAIMED)",
            "call.serving.fingerprints(None, CLAIMED)",
        ),
        f"{_HTTP}::test_what_names_one_set_meets_in_it",
    ),
    one(
        "an id is explained as if it were claimed",
        "oncegate.transports.http.routes.claims::explain",
        replace("namespace.fingerprints(id_set, CLAIMED)", "namespace.fingerprints(None, CLAIMED)"),
        f"{_HTTP}::test_an_id_is_explained_in_the_set_that_is_named",
    ),
    one(
        "a lane is one for all targets",
        "oncegate_spark.spark.writers.sequenced::Lanes._lane",
        replace("f'{own}@{self._target}'", "own"),
        _LANES,
    ),
    one(
        "an attempt keeps its set to itself",
        "oncegate_spark.protocol.calls.attempt::AttemptCalls._request",
        replace("self._id_set if target.columns['id_col'] else None", "None"),
        "tests/client/spark/test_ids_writer.py::test_writes_that_name_one_set_drop_each_others_rows",
    ),
)
