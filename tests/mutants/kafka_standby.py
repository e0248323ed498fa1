"""Planted bugs of who stands by for a ledger on Kafka, and of who is to own it."""

from tests.mutants.mutant import Mutant, one

_STANDBY = "service/oncegate/ledgers/remote"
_SHARD = "service/oncegate/ledgers/kafka/shard"
_OWNER = "service/oncegate/engine/recovery/owner.py"
_LEDGERS = "tests/faults/kafka/test_standby_ledger.py"
_ELECTION = "tests/faults/ledger/test_election.py"
_PROCESSES = "tests/faults/kafka/test_standby.py"

KAFKA_STANDBY: tuple[Mutant, ...] = (
    one(
        "a standby takes over from an owner that is there",
        f"{_STANDBY}/election.py",
        "return not holder.gateway or (beat is not None and beat.gone) or",
        "return True or",
        f"{_LEDGERS}::test_a_standby_keeps_its_promises[a_standby_reads_on_and_fences_nobody]",
        f"{_ELECTION}::test_who_beats_is_followed_by_nobody_and_who_is_silent_is",
    ),
    one(
        "a goodbye is not heard",
        f"{_STANDBY}/election.py",
        "await self._list.beat(self.gateway, Beat(self._beats + 1, gone=True))",
        "pass",
        f"{_ELECTION}::test_where_nobody_is_or_the_last_one_said_goodbye_a_standby_is_next_at_once",
    ),
    one(
        "a time in which nothing could be heard counts as silence",
        f"{_STANDBY}/election.py",
        " or now_s > self._looked_s + self._takeover_s / 2:",
        ":",
        f"{_ELECTION}::test_a_time_in_which_nothing_could_be_heard_is_no_silence",
    ),
    one(
        "two standbys are both chosen",
        f"{_STANDBY}/election.py",
        "return self._next(listed) if (listed.holder, self._beat()) == self._seen else []",
        "return self._next(listed)",
        f"{_ELECTION}::test_a_standby_that_was_late_is_not_chosen",
    ),
    one(
        "a standby that was not chosen takes generations",
        f"{_STANDBY}/election.py",
        "        if self._stands_by or self._has_led or self._is_followed:\n            raise",
        "        if False:\n            raise",
        f"{_LEDGERS}::test_a_standby_keeps_its_promises[who_was_not_chosen_owns_nothing]",
    ),
    one(
        "an opener that was followed takes the ledgers back before it has looked",
        f"{_STANDBY}/election.py",
        "        if self._stands_by or self._has_led or self._is_followed:\n            raise",
        "        if self._stands_by or self._has_led:\n            raise",
        f"{_LEDGERS}::test_of_two_gateways_that_start_at_once_the_first_takes_nothing_back",
    ),
    one(
        "two standbys take the ledger from each other each time that they look",
        f"{_STANDBY}/election.py",
        "        return not holder.gateway or (beat is not None and beat.gone) or",
        "        return bool(holder.gateway) or",
        f"{_LEDGERS}::test_two_standbys_do_not_take_the_ledger_from_each_other_in_turns",
    ),
    one(
        "two standbys take the ledger from each other whatever its holder says",
        f"{_STANDBY}/election.py",
        "            self._seen, self._seen_s = now, now_s\n",
        "            self._seen, self._seen_s = now, self._seen_s or now_s\n",
        f"{_LEDGERS}::test_two_standbys_do_not_take_the_ledger_from_each_other_in_turns",
    ),
    one(
        "what a standby has read vouches for the topic",
        f"{_SHARD}/opening.py",
        "            if last is None or last.end != warm.end:\n",
        "            if False:\n",
        f"{_LEDGERS}::test_what_a_standby_has_read_does_not_vouch_for_a_topic_that_lost_it",
    ),
    one(
        "a standby is not held against the witness",
        f"{_SHARD}/opening.py",
        "            return await _judged(place, listed, warm)\n",
        "            await settle(place, warm)\n            return warm\n",
        f"{_LEDGERS}::test_a_standby_holds_the_ledger_against_its_witness",
    ),
    one(
        "what came between the last look and the opening is left out",
        f"{_STANDBY}/following.py",
        "        if found.end.serial > serial + 1:\n",
        "        if False:\n",
        f"{_LEDGERS}::test_a_standby_keeps_its_promises[what_came_after_the_last_look_is_given_too]",
    ),
    one(
        "changes that a collection repeats are applied twice",
        "service/oncegate/ledgers/fold.py",
        "            if self.settled and isinstance(change, Compacted):\n",
        "            if False:\n",
        f"{_LEDGERS}::test_a_standby_keeps_its_promises[a_collection_by_the_owner_changes_nothing_for_who_has_read_it]",
    ),
    one(
        "a standby waits for transactions that nobody ends",
        "service/oncegate/ledgers/kafka/followed.py",
        "        end = await found.stable_end(self._place.frames)\n",
        "        _, end = await found.bounds(self._place.frames)\n",
        f"{_LEDGERS}::test_a_transaction_that_its_owner_left_open_holds_nobody_up",
    ),
    one(
        "a standby makes namespaces",
        "service/oncegate/ledgers/kafka/ledgers.py",
        'it stands by.\n        """\n        self._election.require_lead()\n',
        'it stands by.\n        """\n',
        f"{_LEDGERS}::test_a_standby_keeps_its_promises[who_stands_by_makes_and_deletes_no_namespace]",
    ),
    one(
        "an owner that was followed is ready until it writes",
        _OWNER,
        "            shard.group_commit.end_beside_appends(error)\n",
        "            pass\n",
        "tests/engine/recovery/test_standby.py::test_who_was_followed_stands_by_again_though_nothing_is_written",
    ),
    one(
        "an owner that was fenced stays down though it could stand by",
        _OWNER,
        "        if self._world.standbys is not None and isinstance(error, Retryable | LedgerFenced):\n",
        "        if self._world.standbys is not None and isinstance(error, Retryable):\n",
        f"{_PROCESSES}::test_a_paused_owner_that_wakes_behind_its_successor_grants_nothing_and_stands_by",
    ),
)
