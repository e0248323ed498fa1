"""Planted bugs of topics that were made again, and of sets of ids that are forgotten as a whole."""

from tests.mutants.mutant import Mutant, one

_TOPICS = "service/oncegate/engine/usecases/topics.py"
_ACTIONS = "service/oncegate/engine/usecases/operations/actions.py"
_INDEX = "service/oncegate/index/id_sets.py"
_ELSEWHERE = "tests/engine/usecases/test_rows_elsewhere.py"
_AGAIN = "tests/faults/kafka/test_recreated_topics.py"
_BOTH_WAYS = f"{_AGAIN}::test_ids_of_a_topic_that_was_made_again_are_refused_with_both_ways_on"
_ALL = "tests/transports/http/test_forget_all.py"

MADE_AGAIN: tuple[Mutant, ...] = (
    one(
        "servers that cannot be asked about topics are looked at by nothing",
        _TOPICS,
        "                self._journal.group_commit.probe()\n",
        "                pass\n",
        _ELSEWHERE,
    ),
    one(
        "a commit whose topic cannot be asked about leaves the ledger as it is",
        _TOPICS,
        "            await self._checked(self._elsewhere.check(topic, schema, (), waiting_bytes=staged_bytes))\n",
        "            await self._elsewhere.check(topic, schema, (), waiting_bytes=staged_bytes)\n",
        _ELSEWHERE,
    ),
    one(
        "a full ledger is named in place of the topic that cannot be asked about",
        _TOPICS,
        "            with suppress(OncegateError):\n",
        "            if True:\n",
        _ELSEWHERE,
    ),
    one(
        "a topic that was made again is taken for the one before",
        _TOPICS,
        "            if id_sets.topic_id(id_set, topic) not in (None, topic_id):\n",
        "            if False:\n",
        _BOTH_WAYS,
    ),
    one(
        "a request shares an answer about topics that is older than it",
        "service/oncegate/ledgers/kafka/rows/identities.py",
        "            wanted, self._wanted, self._next = self._wanted, set(), None\n            return await self._ask(wanted)\n",
        "            found = await self._ask(self._wanted)\n            self._wanted, self._next = set(), None\n            return found\n",
        "tests/faults/kafka/test_identities.py",
    ),
    one(
        "a set is forgotten whatever confirms it",
        _ACTIONS,
        "        if confirm != id_set:\n",
        "        if not confirm:\n",
        _ALL,
    ),
    one(
        "a repeat forgets what came since",
        _ACTIONS,
        "        if id_sets.forgotten_by(id_set) == token:\n",
        "        if False:\n",
        _ALL,
    ),
    one(
        "a forgotten set keeps its topics",
        _INDEX,
        "self._forgotten.get(id_set), self._topics.pop(id_set, None)\n",
        "self._forgotten.get(id_set), self._topics.get(id_set)\n",
        "tests/index/test_id_sets.py",
    ),
    one(
        "a set that is forgotten a second time has the fingerprints of the first",
        _INDEX,
        "        self._forgotten[id_set] = self.generation(id_set) + 1, token\n",
        "        self._forgotten[id_set] = 1, token\n",
        "tests/index/test_id_sets.py",
    ),
    one(
        "a compaction knows forgotten ids again",
        "service/oncegate/index/snapshot/pieces.py",
        "            if _ID_SETS in self._whole:\n",
        "            if False:\n",
        "tests/index/test_id_sets.py",
    ),
    one(
        "a replay knows forgotten ids again",
        "service/oncegate/index/shard.py",
        "        self.id_sets.apply(position, entry)\n        self._set(position, entry)\n",
        "        self._set(position, entry)\n",
        _ALL,
    ),
)
