"""Planted bugs of who stands by for a ledger on Redis; those of the election stand in `kafka_standby.py`."""

from tests.mutants.mutant import Mutant, one

_REDIS = "service/oncegate/ledgers/redis"
_SHARD = f"{_REDIS}/shard"
_FOLLOWING = "service/oncegate/ledgers/remote/following.py"
_LEDGERS = "tests/faults/redis/test_standby_ledger.py"
_FAILOVERS = "tests/faults/redis/test_failovers.py"

REDIS_STANDBY: tuple[Mutant, ...] = (
    one(
        "a standby on Redis that was not chosen takes fences",
        f"{_REDIS}/ledgers.py",
        "        await self._list.change(self._election.lead)\n",
        "        return\n",
        f"{_LEDGERS}::test_a_standby_keeps_its_promises[who_was_not_chosen_owns_nothing]",
    ),
    one(
        "who is to own a ledger on Redis is asked before the fence is read anew",
        f"{_SHARD}/writer.py",
        "        for _ in range(TURNS_MAX):\n            await lead()\n",
        "        await lead()\n        for _ in range(TURNS_MAX):\n",
        f"{_LEDGERS}::test_who_was_chosen_and_is_late_takes_no_fence_behind_the_next_holder",
    ),
    one(
        "what a standby has read vouches for the stream",
        f"{_SHARD}/opening.py",
        "    if first is None or first > max(warm.ledger_from, 1)",
        "    if False",
        f"{_LEDGERS}::test_what_a_standby_has_read_does_not_vouch_for_a_stream_that_lost_it",
    ),
    one(
        "a standby on Redis serves without what came after its last look",
        _FOLLOWING,
        "        if found.end.serial > serial + 1:\n",
        "        if False:\n",
        f"{_LEDGERS}::test_a_standby_keeps_its_promises[what_came_after_the_last_look_is_given_too]",
    ),
    one(
        "rows that a dead owner left behind stay for ever",
        f"{_SHARD}/fold.py",
        "        self.released += gone\n",
        "",
        f"{_LEDGERS}::test_rows_that_a_dead_owner_left_behind_are_deleted_by_its_successor",
    ),
    one(
        "what a standby has read is no witness",
        f"{_SHARD}/followed.py",
        "            self._witness.follow(self._fold, before)\n",
        "            pass\n",
        f"{_FAILOVERS}::test_a_standby_knows_what_a_failover_lost_though_its_owner_is_gone",
    ),
    one(
        "what a standby has read last counts as acknowledged",
        f"{_SHARD}/followed.py",
        "            self._witness.follow(self._fold, before)\n",
        "            self._witness.follow(self._fold, self._fold.end)\n",
        f"{_FAILOVERS}::test_the_last_append_that_a_standby_has_read_proves_nothing",
    ),
    one(
        "a standby takes another history for its own",
        f"{_REDIS}/witnesses.py",
        " and fold.chain_before(seen.serial + 1) in (None, seen.chain)):",
        "):",
        f"{_FAILOVERS}::test_a_standby_is_told_by_what_it_read_though_another_history_has_gone_on",
    ),
    one(
        "a standby on Redis makes namespaces",
        f"{_REDIS}/ledgers.py",
        'it stands by.\n        """\n        self._election.require_lead()\n',
        'it stands by.\n        """\n',
        f"{_LEDGERS}::test_a_standby_keeps_its_promises[who_stands_by_makes_and_deletes_no_namespace]",
    ),
)
