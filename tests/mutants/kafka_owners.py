"""Planted bugs of owners of a ledger on Kafka that walks of a model have found."""

from tests.mutants.mutant import Mutant, one

_SHARD = "service/oncegate/ledgers/kafka/shard"
_OWNERS = "tests/faults/kafka/test_ledger_ownership.py"
_DAMAGE = "tests/faults/kafka/test_ledger_damage.py"
_SLEPT = "tests/faults/kafka/test_slept_collector.py"
_MARKERS = "tests/faults/kafka/test_lost_markers.py"
_COLLECTING = "        fold, since = self._fold, self._taking.changes_since\n"
_OWNED = "tests/engine/commit/test_owned_before_said.py"

_REFUSALS = "tests/faults/kafka/test_refusals.py"
_REVOKED = "tests/faults/kafka/test_revoked.py::test_a_gateways_beats_go_on_when_the_right_to_write_them_is_given_back"

KAFKA_OWNERS: tuple[Mutant, ...] = (
    one(
        "an overtaken gateway takes the number of who came behind it",
        f"{_SHARD}/ownership.py",
        "        if taken.holder != self._holder:\n",
        "        if False:\n",
        f"{_OWNERS}::test_a_gateway_that_is_overtaken_while_it_takes_its_number_does_not_take_the_others",
    ),
    one(
        "records of a frame are counted by its batches",
        f"{_SHARD}/blobs.py",
        "        return sum(int(batch.encoded.record_count()) for batch in self.batches)\n",
        "        return len(self.batches)\n",
        f"{_OWNERS}::test_an_append_in_doubt_behind_a_frame_of_several_records_is_decided",
    ),
    one(
        "what a newer owner has deleted is told as damage",
        f"{_SHARD}/ledger.py",
        "        if followed:\n",
        "        if False:\n",
        f"{_OWNERS}::test_what_a_newer_owner_has_replaced_and_deleted_is_no_damage",
    ),
    one(
        "an owner that was followed tells what it remembers",
        "service/oncegate/engine/commit/proven.py",
        "        if group_commit.fenced_by_appends and not _stays_true(found):\n",
        "        if False:\n",
        f"{_OWNED}::test_an_owner_that_was_followed_tells_nothing_that_may_be_untrue_by_now",
    ),
    one(
        "an owner that was followed denies what it does not know",
        "service/oncegate/engine/commit/proven.py",
        "            await group_commit.owned(since)\n            raise\n",
        "            raise\n",
        f"{_OWNED}::test_an_owner_that_was_followed_tells_nothing_that_may_be_untrue_by_now",
    ),
    one(
        "an append that began before a request proves who owns the ledger after it",
        "service/oncegate/engine/commit/group_commit.py",
        "        return self._begun + 1\n",
        "        return self.mark.position + 1\n",
        f"{_OWNED}::test_an_append_that_began_before_the_request_proves_nothing",
    ),
    one(
        "a ledger on Kafka is taken for one that a lock owns",
        "service/oncegate/ledgers/kafka/ledgers.py",
        "                fenced_by_appends=True,\n",
        "",
        "tests/faults/kafka/test_served.py::"
        "test_a_gateway_that_slept_while_it_was_followed_tells_nothing_that_it_remembers",
    ),
    one(
        "the mark of a ledger without its first frames is that of a frame without entries",
        "service/oncegate/ledgers/fold.py",
        "        if end.position > before.position:\n",
        "        if end.position > self.end.position:\n",
        f"{_OWNERS}::test_a_mark_stays_what_it_was_once_the_frame_that_gave_it_was_deleted",
    ),
    one(
        "an owner goes on in a topic that was made anew below it",
        f"{_SHARD}/writer.py",
        "        self._require_grown(offset)\n",
        "",
        f"{_DAMAGE}::test_a_topic_that_is_made_anew_under_an_owner_ends_its_ownership_with_the_next_append",
    ),
    one(
        "frames that are gone below an owner are found at the next start alone",
        "service/oncegate/ledgers/kafka/ledgers.py",
        "                    await ledger.check_frames()\n",
        "",
        f"{_DAMAGE}::test_frames_that_are_deleted_under_an_owner_end_its_ownership",
    ),
    one(
        "a collector deletes frames before the one that names what replaces them",
        f"{_SHARD}/ledger.py",
        _COLLECTING,
        f"{_COLLECTING}"
        "        first = fold.first_after(mark.position) or (fold.last_offset + 1, 0)\n"
        "        await shorten(self._place.settings, {self._place.frames: first[0]})\n",
        f"{_SLEPT}::test_a_deletion_that_comes_behind_a_successor_takes_nothing_from_it[that goes on]",
    ),
    one(
        "a collector deletes a snapshot once another is written that no frame names yet",
        f"{_SHARD}/ledger.py",
        _COLLECTING,
        f"{_COLLECTING}        await shorten(self._place.settings, {{self._place.states: places[0][0].offset}})\n",
        f"{_SLEPT}::test_a_deletion_that_comes_behind_a_successor_takes_nothing_from_it[that goes on]",
    ),
    one(
        "an upkeep deletes what a collection replaces that is not committed",
        f"{_SHARD}/ledger.py",
        "        offset = await self._write_dying(self._writer.write((), (), lambda _: [compacted, *since]))\n",
        "        fold.adopt(compacted, fold.last_offset)\n"
        "        offset = await self._write_dying(self._writer.write((), (), lambda _: [compacted, *since]))\n",
        f"{_SLEPT}::test_nothing_is_deleted_before_the_frame_that_stands_for_it_is_committed",
    ),
    one(
        "a list goes on with a producer of which a record was refused",
        "service/oncegate/ledgers/kafka/namespaces.py",
        "            if self._witnesses is producer:\n",
        "            if self._witnesses is None:\n",
        _REVOKED,
    ),
    one(
        "a partition is taken for the names of two topics",
        "service/oncegate/ledgers/kafka/refusals.py",
        "    each = [named] if isinstance(named, str | TopicPartition) else named\n",
        "    each = [named] if isinstance(named, str) else named\n",
        f"{_REFUSALS}::test_a_partition_that_may_not_be_read_is_told_by_its_topic",
    ),
    one(
        "a gateway that was followed opens its ledger again",
        "service/oncegate/engine/recovery/owner.py",
        "        return is_shortage(error) or (self._has_served and not isinstance(error, Stop | LedgerFenced))\n",
        "        return is_shortage(error) or (self._has_served and not isinstance(error, Stop))\n",
        "tests/engine/recovery/test_unknown_end.py::test_a_fenced_owner_stays_down_and_writes_nothing",
    ),
    one(
        "a namespace that is down for its successor is one that recovers",
        "service/oncegate/engine/gateway.py",
        "    if isinstance(failed, Stop | LedgerFenced):\n",
        "    if isinstance(failed, Stop):\n",
        "tests/engine/recovery/test_unknown_end.py::test_a_fenced_owner_stays_down_and_writes_nothing",
    ),
    one(
        "a gateway that was followed keeps its callers",
        "service/oncegate/transports/http/problems.py",
        "    if isinstance(error, BodyTooSlow | ELSEWHERE):\n",
        "    if isinstance(error, BodyTooSlow):\n",
        "tests/transports/http/test_problems.py",
    ),
    one(
        "an opener asks who came after it before its own producer is started",
        f"{_SHARD}/ownership.py",
        "        await guard.start()\n        try:\n            await self._list.refresh()\n"
        "            self._require_highest(self._list.listed)\n",
        "        try:\n            await self._list.refresh()\n            self._require_highest(self._list.listed)\n"
        "            await guard.start()\n",
        f"{_OWNERS}::test_a_gateway_that_slept_between_its_number_and_its_producer_owns_nothing",
    ),
    one(
        "a deletion that failed is taken for done",
        f"{_SHARD}/ledger.py",
        "        before = {self._place.frames: self._fold.ledger_from, ",
        "        self._shortened_to = compacted.position\n        before = {self._place.frames: self._fold.ledger_from, ",
        f"{_OWNERS}::test_what_a_compaction_replaced_is_deleted_after_a_deletion_that_failed",
    ),
    one(
        "an opener starts the ids before it before it heals what they wrote",
        f"{_SHARD}/ownership.py",
        "            await markers.heal(ids)\n            before = await markers.states(ids)\n",
        "            before = await markers.states(ids)\n",
        f"{_MARKERS}::test_what_was_forgotten_is_healed_also_behind_a_start_that_came_to_no_healing",
    ),
    one(
        "whoever changes the list starts its id before it heals it",
        "service/oncegate/ledgers/kafka/namespaces.py",
        "            await markers.heal([guard.transactional_id])\n            await guard.start()\n",
        "            await guard.start()\n",
        f"{_MARKERS}::test_the_list_of_namespaces_is_healed_as_well",
    ),
    one(
        "a ledger of lanes is closed once its readers are gone",
        "service/oncegate/ledgers/kafka/direct/topic.py",
        "        self._closed = True\n        for partition in list(self._readers):\n            await self._drop(partition)\n",
        "        for partition in list(self._readers):\n            await self._drop(partition)\n        self._closed = True\n",
        "tests/faults/kafka/test_direct_topic.py::test_a_reading_that_comes_while_the_ledger_is_closed_is_refused",
    ),
    one(
        "a question about topics counts as answered when it is asked",
        "service/oncegate/ledgers/kafka/rows/user_topics.py",
        "        try:\n            admin = await self._connected()\n            found = {",
        "        self._asked.update(dict.fromkeys(topics, time.monotonic() + FRESH_S))\n        try:\n            admin = await self._connected()\n            found = {",
        "tests/faults/kafka/test_topics_of_users.py::"
        "test_a_question_about_a_topic_that_brokers_did_not_answer_is_asked_again",
    ),
)
