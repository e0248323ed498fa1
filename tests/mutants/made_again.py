"""Planted bugs of topics that were made again, and of sets of ids that are forgotten as a whole."""

from tests.mutants.mutant import Mutant, one

_TOPICS = "service/oncegate/engine/usecases/topics.py"
_ACTIONS = "service/oncegate/engine/usecases/operations/actions.py"
_INDEX = "service/oncegate/index/id_sets.py"
_ELSEWHERE = "tests/engine/usecases/test_rows_elsewhere.py"
_AGAIN = "tests/faults/kafka/test_recreated_topics.py"
_BOTH_WAYS = f"{_AGAIN}::test_ids_of_a_topic_that_was_made_again_are_refused_with_both_ways_on"
_LANES = "service/oncegate/engine/usecases/direct/lanes.py"
_LATER = "tests/engine/usecases/test_topics_made_again.py"
_BATCHES = "service/oncegate/engine/usecases/batches.py"
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
        "        return await self._checked(checking)\n",
        "        return await checking\n",
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
        "        if id_sets.topic_id(identified_by, name, topic) not in (None, topic_id):\n",
        "        if False:\n",
        _BOTH_WAYS,
    ),
    one(
        "rows by sequence go into whatever topic has the name now",
        "service/oncegate/engine/usecases/produce.py",
        "        met = identify_topics(self._journal, IdentifiedBy.SEQUENCES, requests.producer, request.topic_ids)\n",
        "        met = list[Entry]()\n",
        _LATER,
    ),
    one(
        "all producers have one topic of a name",
        "service/oncegate/engine/usecases/produce.py",
        "identify_topics(self._journal, IdentifiedBy.SEQUENCES, requests.producer, request.topic_ids)",
        'identify_topics(self._journal, IdentifiedBy.SEQUENCES, "", request.topic_ids)',
        _LATER,
    ),
    one(
        "a repeat of sequences records no topic",
        "service/oncegate/engine/usecases/produce.py",
        "        made_at = 0 if placed else self._topic_alone(request, entries, met)\n",
        "        made_at = 0 if placed else self._topic_alone(request, entries)\n",
        _LATER,
    ),
    one(
        "a chunk is staged for whatever topic has the name now",
        _BATCHES,
        "        self._identify(request.name, topic_ids)\n        record",
        "        record",
        _LATER,
    ),
    one(
        "a topic is a batch's before the batch is committed",
        _BATCHES,
        "            position = self._store(request, stage, written, key_partitions, column_topics)\n",
        "            self._journal.record(self._identify(request.name, topic_ids))\n"
        "            position = self._store(request, stage, written, key_partitions, column_topics)\n",
        _LATER,
    ),
    one(
        "a repeated commit does not look at the topic that its rows went to",
        _BATCHES,
        "        if id_sets.topic_id(IdentifiedBy.BATCHES, request.name.app, topic) is not None:\n",
        "        if False:\n",
        _LATER,
    ),
    one(
        "a commit records no topic",
        _BATCHES,
        "        entries += met\n",
        "",
        _LATER,
    ),
    one(
        "topics that a column names are not looked at by a commit",
        _BATCHES,
        "            column_topics = sorted({one.decode() for chunk in chunks for one in chunk.column_topics})\n",
        "            column_topics = list[str]()\n",
        _LATER,
    ),
    one(
        "a lane's topic is compared with nothing",
        _LANES,
        "                await self._identify(lane, question)\n",
        "",
        _LATER,
    ),
    one(
        "a lane's topic is compared before what it has written is read",
        _LANES,
        "            lane = self._lane(question.topic, question.producer)\n            if self",
        "            lane = self._lane(question.topic, question.producer)\n"
        "            if reading is Reading.BEFORE:\n                await self._identify(lane, question)\n            if self",
        _LATER,
    ),
    one(
        "a lane that has written rows goes to whichever topic is there",
        _LANES,
        "            if len(lane.written):\n                raise\n",
        "",
        _LATER,
    ),
    one(
        "a lane that has written nothing keeps its topic",
        _LANES,
        "            if len(lane.written):\n                raise\n",
        "            raise\n",
        _LATER,
    ),
    one(
        "a lane's rows go into a topic that is not recorded yet",
        _LANES,
        "            await journal.group_commit.durable(journal.record(entries))\n\n    def _acking",
        "            journal.record(entries)\n\n    def _acking",
        _LATER,
    ),
    one(
        "a client looks its topic's id up as no tool of Kafka's shows it",
        "spark_client/oncegate_spark/direct/transaction.py",
        "    return urlsafe_b64encode(raw)",
        "    return __import__('base64').b64encode(raw)",
        "tests/client/direct/test_record.py",
    ),
    one(
        "a set that is forgotten takes the topics of a producer of its name with it",
        _INDEX,
        "self._topics.pop((IdentifiedBy.IDS, id_set), None)\n",
        "[self._topics.pop((by, id_set), None) for by in IdentifiedBy][0]\n",
        "tests/index/test_id_sets.py",
    ),
    one(
        "a snapshot leaves out the topics of producers and apps",
        _INDEX,
        "tuple(one for one in every if one[0] != IdentifiedBy.IDS))\n",
        "())\n",
        "tests/index/test_id_sets.py",
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
        "self._forgotten.get(id_set), self._topics.pop((IdentifiedBy.IDS, id_set), None)\n",
        "self._forgotten.get(id_set), self._topics.get((IdentifiedBy.IDS, id_set))\n",
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
