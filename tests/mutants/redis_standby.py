"""Planted bugs of standbys for a ledger on Redis; those of the election are in `kafka_standby.py`."""

from tests.mutants.edits import delete, replace, replace_statement
from tests.mutants.mutant import Mutant, one

_LEDGERS = "tests/faults/redis/test_standby_ledger.py"
_FAILOVERS = "tests/faults/redis/test_failovers.py"

REDIS_STANDBY: tuple[Mutant, ...] = (
    one(
        "a standby on Redis that was not chosen takes fences",
        "oncegate.ledgers.redis.ledgers::RedisLedgers._lead",
        replace_statement("await self._list.change(...)", "return"),
        f"{_LEDGERS}::test_a_standby_keeps_its_promises[a_gateway_that_was_not_elected_owns_nothing]",
    ),
    one(
        "the chosen owner of a ledger on Redis is read before the fence is read again",
        "oncegate.ledgers.redis.shard.writer::FrameWriter.own",
        replace_statement(
            "for _ in range(TURNS_MAX):\n    ...",
            (
                "await lead()\n"
                "for _ in range(TURNS_MAX):\n"
                "    taken = await take(self._link, self._place, read, self._holder)\n"
                "    if taken is not None:\n"
                "        return self._took(taken)\n"
                "    read = await read_head(self._link, self._place)"
            ),
        ),
        f"{_LEDGERS}::test_a_late_elected_gateway_raises_no_fence_after_the_next_holder",
    ),
    one(
        "a standby's reading counts as proof of the stream",
        "oncegate.ledgers.redis.shard.opening::_require_read",
        replace(
            ("first is None or first > max(warm.ledger_from, 1) or last is None or (last.end != warm.end)"),
            "False or last is None or last.end != warm.end",
        ),
        f"{_LEDGERS}::test_the_entries_read_by_a_standby_do_not_vouch_for_a_stream_that_lost_them",
    ),
    one(
        "a standby on Redis serves without what came after its last look",
        "oncegate.ledgers.server.following::Following._taken_over",
        replace("found.end.serial > serial + 1", "False"),
        f"{_LEDGERS}::test_a_standby_keeps_its_promises[entries_after_the_last_read_are_replayed_at_takeover]",
    ),
    one(
        "rows that a dead owner left behind stay for ever",
        "oncegate.ledgers.redis.shard.reading::Fold.catch_up",
        delete("self.released += gone"),
        f"{_LEDGERS}::test_rows_that_a_dead_owner_left_behind_are_deleted_by_its_successor",
    ),
    one(
        "a standby's reading is not used as a witness",
        "oncegate.ledgers.redis.shard.followed::FollowedStreams.take",
        delete("self._witness.follow(...)"),
        f"{_FAILOVERS}::test_a_standby_knows_what_a_failover_lost_though_its_owner_is_gone",
    ),
    one(
        "the last entry that a standby read counts as acknowledged",
        "oncegate.ledgers.redis.shard.followed::FollowedStreams.take",
        replace("self._witness.follow(self._fold, before)", "self._witness.follow(self._fold, self._fold.end)"),
        f"{_FAILOVERS}::test_the_last_append_that_a_standby_has_read_proves_nothing",
    ),
    one(
        "a standby takes another history for its own",
        "oncegate.ledgers.redis.witnesses::Witness.follow",
        replace(
            ("end.serial > seen.serial and fold.chain_before(seen.serial + 1) in (None, seen.chain)"),
            "end.serial > seen.serial",
        ),
        f"{_FAILOVERS}::test_a_standby_detects_lost_entries_though_another_history_has_continued",
    ),
    one(
        "a standby on Redis makes namespaces",
        "oncegate.ledgers.server.ledgers::ServerLedgers.create",
        delete("self._election.require_lead()"),
        f"{_LEDGERS}::test_a_standby_keeps_its_promises[a_standby_creates_and_deletes_no_namespace]",
    ),
)
