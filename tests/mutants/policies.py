"""Planted bugs of what an operator sets a namespace to."""

from tests.mutants.mutant import Mutant, one

_CELLS = "tests/index/claims/test_cells.py"
_EXPIRY = "tests/engine/usecases/test_lease_expiry.py"
_DOORS = "tests/transports/test_policies.py"
_CLIENT = "tests/client/sync/test_in_doubt.py"

POLICIES: tuple[Mutant, ...] = (
    one(
        "who asks for what is held takes it over",
        "service/oncegate/core/claims.py",
        '            (IdState.CLAIMED_OVER, Asker.OTHER): _HOLDS,\n        },\n        "produce"',
        '        },\n        "produce"',
        f"{_CELLS}::test_an_id_is_answered_as_its_cell_says_where_nobody_takes_over",
    ),
    one(
        "produce takes over what is in doubt",
        "service/oncegate/core/claims.py",
        '        "produce": {(IdState.CLAIMED_OVER, asker): _IN_DOUBT for asker in Asker},\n',
        "",
        f"{_EXPIRY}::test_nobody_is_granted_what_ran_out_on_any_way",
    ),
    one(
        "what is in doubt is told as a duplicate",
        "service/oncegate/index/claims/store.py",
        "    Action.IN_DOUBT: Verdict.IN_DOUBT,\n",
        "    Action.IN_DOUBT: Verdict.DUPLICATE,\n",
        f"{_DOORS}::test_every_door_tells_what_ran_out_as_the_namespace_is_set",
    ),
    one(
        "a later epoch takes over what is held",
        "service/oncegate/index/shard.py",
        "        self.producers.store.let_expire(expiry)\n",
        "",
        f"{_EXPIRY}::test_what_an_older_epoch_left_is_granted_to_nobody_and_a_person_resolves_it",
    ),
    one(
        "a snapshot forgets what becomes of leases",
        "service/oncegate/index/shard.py",
        "(self.settings, self.buckets)\n            self._obey()\n",
        "(self.settings, self.buckets)\n",
        f"{_EXPIRY}::test_it_outlives_the_process_and_a_snapshot",
    ),
    one(
        "a setting that was refused is in force",
        "service/oncegate/index/shard.py",
        "self.buckets = before\n            self._obey()\n",
        "self.buckets = before\n",
        f"{_EXPIRY}::test_a_setting_that_the_ledger_refused_is_not_in_force",
    ),
    one(
        "the client drops what is in doubt",
        "spark_client/oncegate_spark/protocol/calls/attempt.py",
        '        if "IN_DOUBT" in verdicts:\n            yield from self._give_back',
        '        if "IN_DOUBT" in ():\n            yield from self._give_back',
        f"{_CLIENT}::test_who_claims_what_is_in_doubt_is_stopped_and_what_was_granted_is_released",
    ),
)
