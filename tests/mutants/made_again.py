"""Planted bugs of recreated topics, and of dedup scopes that are forgotten as a whole."""

from tests.mutants.edits import delete, insert, replace, replace_statement, without
from tests.mutants.mutant import Mutant, one

_ELSEWHERE = "tests/engine/usecases/test_rows_elsewhere.py"
_AGAIN = "tests/faults/kafka/test_recreated_topics.py"
_BOTH_WAYS = f"{_AGAIN}::test_ids_of_a_topic_that_was_made_again_are_refused_with_both_ways_on"
_LATER = "tests/engine/usecases/test_topics_made_again.py"
_ALL = "tests/transports/http/test_forget_all.py"

MADE_AGAIN: tuple[Mutant, ...] = (
    one(
        "servers that cannot be asked about topics are looked at by nothing",
        "oncegate.engine.usecases.topics::Topics._checked",
        delete("self.journal.group_commit.probe()"),
        _ELSEWHERE,
    ),
    one(
        "a commit whose topic cannot be asked about leaves the ledger as it is",
        "oncegate.engine.usecases.topics::Topics.check_writable",
        replace("self._checked(checking)", "checking"),
        _ELSEWHERE,
    ),
    one(
        "a full ledger is named in place of the topic that cannot be asked about",
        "oncegate.engine.usecases.topics::Topics._checked",
        replace_statement("with suppress(OncegateError):\n    ...", "if True:\n    self.journal.group_commit.probe()"),
        _ELSEWHERE,
    ),
    one(
        "a topic that was made again is taken for the one before",
        "oncegate.engine.usecases.topics::identify_topics",
        replace("id_sets.topic_id(identified_by, name, topic) not in (None, topic_id)", "False"),
        _BOTH_WAYS,
    ),
    one(
        "rows by sequence go into whatever topic has the name now",
        "oncegate.engine.usecases.produce::Records._sequenced",
        replace(
            ("identify_topics(self.journal, IdentifiedBy.SEQUENCES, requests.producer, request.topic_ids)"),
            "list[Entry]()",
        ),
        _LATER,
    ),
    one(
        "all producers have one topic of a name",
        "oncegate.engine.usecases.produce::Records._sequenced",
        replace("requests.producer", "''"),
        _LATER,
    ),
    one(
        "a repeat of sequences records no topic",
        "oncegate.engine.usecases.produce::Records._sequenced",
        without("met"),
        _LATER,
    ),
    one(
        "a chunk is staged for whatever topic has the name now",
        "oncegate.engine.usecases.batches::Batches.stage",
        delete("self._identify(...)"),
        _LATER,
    ),
    one(
        "a topic is a batch's before the batch is committed",
        "oncegate.engine.usecases.batches::Batches.stage",
        insert(
            "self.journal.record(self._identify(request.name, topic_ids))",
            after="key_partitions = 0 if request.keys is None else partitions",
        ),
        _LATER,
    ),
    one(
        "a repeated commit does not look at the topic that its rows went to",
        "oncegate.engine.usecases.batches::Batches._check_writable",
        replace("id_sets.topic_id(IdentifiedBy.BATCHES, request.name.app, topic) is not None", "False"),
        _LATER,
    ),
    one(
        "a commit records no topic",
        "oncegate.engine.usecases.batches::Batches._publish",
        delete("entries += met"),
        _LATER,
    ),
    one(
        "topics that a column names are not looked at by a commit",
        "oncegate.engine.usecases.batches::Batches._check_writable",
        replace("sorted({one.decode() for chunk in chunks for one in chunk.column_topics})", "list[str]()"),
        _LATER,
    ),
    one(
        "a lane's topic is compared with nothing",
        "oncegate.engine.usecases.direct.lanes::DirectLanes.ask",
        delete("await self._identify(...)"),
        _LATER,
    ),
    one(
        "a lane's topic is compared before what it has written is read",
        "oncegate.engine.usecases.direct.lanes::DirectLanes.ask",
        insert(
            "if reading is ReadProgress.BEFORE:\n    await self._identify(lane, question)",
            after="lane = self._lane(question.topic, question.producer)",
        ),
        _LATER,
    ),
    one(
        "a lane that has written rows goes to whichever topic is there",
        "oncegate.engine.usecases.direct.lanes::DirectLanes._identify",
        delete("if len(lane.written):\n    ..."),
        _LATER,
    ),
    one(
        "a lane that has written nothing keeps its topic",
        "oncegate.engine.usecases.direct.lanes::DirectLanes._identify",
        replace_statement("if len(lane.written):\n    ...", "raise"),
        _LATER,
    ),
    one(
        "a lane's rows go into a topic that is not recorded yet",
        "oncegate.engine.usecases.direct.lanes::DirectLanes._identify",
        replace("await journal.group_commit.durable(journal.record(entries))", "journal.record(entries)"),
        _LATER,
    ),
    one(
        "a client looks its topic's id up as no tool of Kafka's shows it",
        "oncegate_spark.direct.transaction::topic_id_text",
        replace("urlsafe_b64encode(raw)", "__import__('base64').b64encode(raw)"),
        "tests/client/direct/test_record.py",
    ),
    one(
        "a set that is forgotten takes the topics of a producer of its name with it",
        "oncegate.index.settings::IdSetIndex._forget",
        replace(
            "self._topics.pop((IdentifiedBy.IDS, id_set), None)",
            "[self._topics.pop((by, id_set), None) for by in IdentifiedBy][0]",
        ),
        "tests/index/test_id_sets.py",
    ),
    one(
        "a snapshot leaves out the topics of producers and apps",
        "oncegate.index.settings::IdSetIndex.snapshot",
        replace("tuple((one for one in every if one[0] != IdentifiedBy.IDS))", "()"),
        "tests/index/test_id_sets.py",
    ),
    Mutant(
        "a request shares an answer about topics that is older than it",
        (
            (
                "oncegate.ledgers.kafka.rows.marks::Identities._asked",
                replace_statement(
                    "wanted, self._wanted, self._next = (self._wanted, set(), None)",
                    ("found = await self._ask(self._wanted)\nself._wanted, self._next = (set(), None)\nreturn found"),
                ),
            ),
            ("oncegate.ledgers.kafka.rows.marks::Identities._asked", delete("return await self._ask(wanted)")),
        ),
        ("tests/faults/kafka/test_identities.py",),
    ),
    one(
        "a set is forgotten whatever confirms it",
        "oncegate.engine.usecases.operations.actions::Actions.forget_all",
        replace("confirm != id_set", "not confirm"),
        _ALL,
    ),
    one(
        "a repeat forgets what came since",
        "oncegate.engine.usecases.operations.actions::Actions.forget_all",
        replace("id_sets.forgotten_by(id_set) == token", "False"),
        _ALL,
    ),
    one(
        "a forgotten set keeps its topics",
        "oncegate.index.settings::IdSetIndex._forget",
        replace("self._topics.pop((IdentifiedBy.IDS, id_set), None)", "self._topics.get((IdentifiedBy.IDS, id_set))"),
        "tests/index/test_id_sets.py",
    ),
    one(
        "a set that is forgotten a second time has the fingerprints of the first",
        "oncegate.index.settings::IdSetIndex._forget",
        replace("self.generation(id_set) + 1", "1"),
        "tests/index/test_id_sets.py",
    ),
    one(
        "a compaction knows forgotten ids again",
        "oncegate.index.shard::ShardIndex._in_order",
        replace("sets.restore", "bool"),
        "tests/index/test_id_sets.py",
    ),
    one(
        "a replay knows forgotten ids again",
        "oncegate.index.shard::ShardIndex._in_order",
        replace("sets.apply", "None"),
        _ALL,
    ),
)
