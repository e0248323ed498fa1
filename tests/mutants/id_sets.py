"""Planted bugs of the sets of ids: an id that is known beyond its set, or not within it."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import CLIENT, ENGINE

_HASHING = "service/oncegate/hashing/ids.py"
_ROUTES = "service/oncegate/transports/http/routes"
_HTTP = "tests/transports/http/test_id_sets.py"
_PRINTS = "tests/hashing/test_ids.py"
_TOPICS = f"{_HTTP}::test_the_same_ids_are_written_once_to_each_of_two_topics"
_LANES = "tests/client/spark/test_sequenced.py::test_a_source_goes_to_two_targets_whole"

ID_SETS: tuple[Mutant, ...] = (
    one(
        "an id is one in all sets",
        _HASHING,
        ' + (b":" + id_set.encode() if id_set else b"")\n',
        "\n",
        _PRINTS,
        _TOPICS,
    ),
    one(
        "ids of several columns are one in all sets",
        _HASHING,
        'derive(key, b"joined ids" + name)',
        'derive(key, b"joined ids")',
        f"{_PRINTS}::test_an_id_has_another_print_in_every_set_and_by_every_door",
    ),
    one(
        "rows of all topics are of one set",
        f"{ENGINE}/id_sets.py",
        "    return topic\n",
        "    return CLAIMED\n",
        _TOPICS,
    ),
    one(
        "the set that is named is not looked at",
        f"{ENGINE}/id_sets.py",
        "    if named is None:\n        return own\n",
        "    if named is None or own:\n        return own\n",
        f"{_HTTP}::test_what_names_one_set_meets_in_it",
    ),
    one(
        "the set of a packed body is not read",
        f"{_ROUTES}/claims.py",
        "    printer = inbound.claims.fingerprints(inbound.id_set, id_sets.CLAIMED)\n    found, digests",
        "    printer = inbound.claims.fingerprints(None, id_sets.CLAIMED)\n    found, digests",
        f"{_HTTP}::test_what_names_one_set_meets_in_it",
    ),
    one(
        "an id is explained as if it were claimed",
        f"{_ROUTES}/claims.py",
        "ids.of_json([asked], shard.fingerprints(id_set, id_sets.CLAIMED), limits)",
        "ids.of_json([asked], shard.fingerprints(None, id_sets.CLAIMED), limits)",
        f"{_HTTP}::test_an_id_is_explained_in_the_set_that_is_named",
    ),
    one(
        "a lane is one for all targets",
        f"{CLIENT}/spark/writers/sequenced.py",
        'full, attempt = f"{own}@{self._target}", {',
        "full, attempt = own, {",
        _LANES,
    ),
    one(
        "an attempt keeps its set to itself",
        f"{CLIENT}/protocol/calls/attempt.py",
        '            id_set=self._id_set if target.columns["id_col"] else None,\n',
        "            id_set=None,\n",
        "tests/client/spark/test_ids_writer.py::test_writes_that_name_one_set_drop_each_others_rows",
    ),
)
