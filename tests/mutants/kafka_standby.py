"""Planted bugs of standbys for a ledger on Kafka, and of the election of an owner."""

from tests.mutants.edits import delete, replace, replace_statement, shift
from tests.mutants.mutant import Mutant, one

_LEDGERS = "tests/faults/kafka/test_standby_ledger.py"
_ELECTION = "tests/faults/ledger/test_election.py"
_PROCESSES = "tests/faults/kafka/test_standby.py"

KAFKA_STANDBY: tuple[Mutant, ...] = (
    one(
        "a standby takes over from an owner that is there",
        "oncegate.ledgers.server.election::Election._is_due",
        replace(
            ("not holder.gateway or (beat is not None and beat.gone) or now_s >= self._seen_s + self._takeover_s"),
            "True or now_s >= self._seen_s + self._takeover_s",
        ),
        f"{_LEDGERS}::test_a_standby_keeps_its_promises[a_standby_follows_the_owner_without_fencing_it]",
        f"{_ELECTION}::test_an_owner_that_beats_is_not_superseded_and_a_silent_one_is",
    ),
    one(
        "a standby waits a look longer than the silence has to last",
        "oncegate.ledgers.server.election::Election._is_due",
        shift("now_s >= self._seen_s + self._takeover_s"),
        f"{_ELECTION}::test_an_owner_that_beats_is_not_superseded_and_a_silent_one_is",
    ),
    one(
        "looks that are just half the takeover apart hear nothing",
        "oncegate.ledgers.server.election::Election._note",
        shift("now_s > self._looked_s + self._takeover_s / 2"),
        f"{_ELECTION}::test_silence_counts_where_looks_are_at_most_half_the_takeover_apart[half]",
    ),
    one(
        "a holder beats a look late",
        "oncegate.ledgers.server.election::Election._lead",
        shift("now_s < self._beaten_s + BEAT_S"),
        f"{_ELECTION}::test_a_holder_beats_once_a_second",
    ),
    one(
        "a holder looks a look late",
        "oncegate.ledgers.server.election::Election._look",
        shift("now_s() < self._looked_s + BEAT_S"),
        f"{_ELECTION}::test_a_holder_beats_once_a_second",
    ),
    one(
        "a list with something open in it is waited for",
        "oncegate.ledgers.server.election::Election._look",
        replace("STUCK_S", "2 * STUCK_S"),
        f"{_ELECTION}::test_a_list_that_cannot_be_read_to_its_end_for_five_seconds_is_freed_by_a_change_of_nothing",
    ),
    one(
        "a goodbye is not heard",
        "oncegate.ledgers.server.election::Election.close",
        delete("await self._list.beat(...)"),
        f"{_ELECTION}::test_without_an_owner_or_after_its_goodbye_a_standby_is_next_at_once",
    ),
    one(
        "a time in which nothing could be heard counts as silence",
        "oncegate.ledgers.server.election::Election._note",
        replace("now != self._seen or now_s > self._looked_s + self._takeover_s / 2", "now != self._seen"),
        f"{_ELECTION}::test_a_time_in_which_nothing_could_be_heard_is_no_silence",
    ),
    one(
        "two standbys are both chosen",
        "oncegate.ledgers.server.election::Election._elected",
        replace("self._next(listed) if (listed.holder, self._beat()) == self._seen else []", "self._next(listed)"),
        f"{_ELECTION}::test_a_standby_that_was_late_is_not_chosen",
    ),
    one(
        "a standby that was not chosen takes generations",
        "oncegate.ledgers.server.election::Election.lead",
        replace("self._stands_by or self._has_led or self._is_followed", "False"),
        f"{_LEDGERS}::test_a_standby_keeps_its_promises[a_gateway_that_was_not_elected_owns_nothing]",
    ),
    one(
        "an opener that was followed takes the ledgers back before it has looked",
        "oncegate.ledgers.server.election::Election.lead",
        replace("self._stands_by or self._has_led or self._is_followed", "self._stands_by or self._has_led"),
        f"{_LEDGERS}::test_of_two_gateways_that_start_at_once_the_first_takes_nothing_back",
    ),
    one(
        "two standbys take the ledger from each other each time that they look",
        "oncegate.ledgers.server.election::Election._is_due",
        replace(
            ("not holder.gateway or (beat is not None and beat.gone) or now_s >= self._seen_s + self._takeover_s"),
            "bool(holder.gateway) or now_s >= self._seen_s + self._takeover_s",
        ),
        f"{_LEDGERS}::test_two_standbys_do_not_take_the_ledger_from_each_other_in_turns",
    ),
    one(
        "two standbys take the ledger from each other despite its holder's beats",
        "oncegate.ledgers.server.election::Election._note",
        replace("(now, now_s)", "(now, self._seen_s or now_s)"),
        f"{_LEDGERS}::test_two_standbys_do_not_take_the_ledger_from_each_other_in_turns",
    ),
    one(
        "a standby's reading counts as proof of the topic",
        "oncegate.ledgers.kafka.shard.opening::_read_on",
        replace("last is None or last.end != warm.end", "False"),
        f"{_LEDGERS}::test_the_entries_read_by_a_standby_do_not_vouch_for_a_topic_that_lost_them",
    ),
    one(
        "a standby is not compared with the witness",
        "oncegate.ledgers.kafka.shard.opening::_read",
        replace_statement("return await _judged(place, listed, warm)", "await settle(place, warm)\nreturn warm"),
        f"{_LEDGERS}::test_a_standby_holds_the_ledger_against_its_witness",
    ),
    one(
        "frames between the last look and the opening are left out",
        "oncegate.ledgers.server.following::Following._taken_over",
        replace("found.end.serial > serial + 1", "False"),
        f"{_LEDGERS}::test_a_standby_keeps_its_promises[entries_after_the_last_read_are_replayed_at_takeover]",
    ),
    one(
        "changes that a collection repeats are applied twice",
        "oncegate.ledgers.fold::Fold.take",
        replace("self.settled and isinstance(change, Compacted)", "False"),
        f"{_LEDGERS}::test_a_standby_keeps_its_promises[a_compaction_by_the_owner_changes_nothing_for_a_standby_that_has_read_it]",
    ),
    Mutant(
        "a standby waits for transactions that never end",
        (
            ("oncegate.ledgers.kafka.followed::FollowedTopics._new_frames", replace("end", "(_, end)", nth=1)),
            (
                "oncegate.ledgers.kafka.followed::FollowedTopics._new_frames",
                replace("self._reader.stable_end", "self._reader.bounds"),
            ),
        ),
        (f"{_LEDGERS}::test_a_transaction_left_open_by_its_owner_blocks_no_reader",),
    ),
    one(
        "a standby makes namespaces",
        "oncegate.ledgers.server.ledgers::ServerLedgers.create",
        delete("self._election.require_lead()"),
        f"{_LEDGERS}::test_a_standby_keeps_its_promises[a_standby_creates_and_deletes_no_namespace]",
    ),
    one(
        "an owner that was followed is ready until it writes",
        "oncegate.engine.commit.group_commit::GroupCommit.ending",
        delete("if self._in_doubt_to is None:\n    ..."),
        "tests/engine/recovery/test_standby.py::test_a_superseded_owner_becomes_a_standby_even_if_nothing_is_written",
    ),
    one(
        "a fenced owner stays down although it could stand by",
        "oncegate.engine.recovery.owner::Owner._take",
        replace("self._state is State.SUPERSEDED and self._world.standbys is not None", "False"),
        f"{_PROCESSES}::test_a_paused_owner_that_wakes_after_its_successor_grants_nothing_and_becomes_a_standby",
    ),
)
