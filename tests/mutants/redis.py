"""Planted bugs of ledgers on Redis."""

from tests.mutants.mutant import Mutant, one

_REDIS = "service/oncegate/ledgers/redis"
_SHARD = f"{_REDIS}/shard"
_LUA = f"{_REDIS}/lua"
_OWNERS = "tests/faults/redis/test_ledger_ownership.py"
_DAMAGE = "tests/faults/redis/test_ledger_damage.py"
_CLAIMS = "tests/faults/redis/test_claims_only.py"
_SERVER = "tests/faults/redis/test_server_faults.py"
_ONE = "tests/faults/redis/test_one_namespace.py"

REDIS: tuple[Mutant, ...] = (
    one(
        "a server that is away is told by the next append alone",
        f"{_REDIS}/shard/ledger.py",
        "                self._away = unusable(self._place.address, error)\n",
        "                pass\n",
        "tests/faults/redis/test_ledger_damage.py::test_a_server_that_is_away_is_told_without_an_append",
    ),
    one(
        "a gateway whose server is away is ready until something is written",
        "service/oncegate/engine/recovery/owner.py",
        "        if self._away() is not None:\n",
        "        if False:\n",
        "tests/engine/recovery/test_away.py::test_a_ledger_that_is_away_is_told_and_serves_again_without_a_new_opening",
    ),
    one(
        "a ledger that its upkeep has found damaged is served until something is written",
        "service/oncegate/ledgers/remote/ledger.py",
        "        if isinstance(self._dead, LedgerDamaged) or self._gave_up:\n",
        "        if False:\n",
        f"{_DAMAGE}::test_a_flushed_server_is_told_without_an_append",
    ),
    one(
        "an owner that was followed writes over its successor's witness",
        f"{_REDIS}/witnesses.py",
        "            if self._has_followed(self._path, fence):\n",
        "            if False:\n",
        f"{_OWNERS}::test_a_witness_stays_with_the_later_owner",
    ),
    one(
        "an append is taken with any fence",
        f"{_LUA}/append.lua",
        "if head[1] ~= ARGV[1] then\n",
        "if false then\n",
        f"{_OWNERS}::test_a_late_copy_of_an_append_that_was_refused_is_never_written",
    ),
    one(
        "an opening that comes late takes the ledger",
        f"{_LUA}/own.lua",
        "if head[2] ~= ARGV[2] then\n",
        "if false then\n",
        f"{_OWNERS}::test_an_opening_that_comes_late_owns_nothing",
    ),
    one(
        "an append in doubt is taken for refused",
        f"{_SHARD}/writer.py",
        "        return head.end == end\n",
        "        return False\n",
        f"{_OWNERS}::test_an_append_whose_answer_is_lost_is_found_written",
    ),
    one(
        "an append in doubt is taken for written",
        f"{_SHARD}/writer.py",
        "        return head.end == end\n",
        "        return True\n",
        f"{_OWNERS}::test_an_append_that_never_arrived_is_sent_again_and_written_once",
    ),
    one(
        "a zombie takes the ledger back over a new connection",
        f"{_SHARD}/writer.py",
        "            if read.holder != self._holder:\n",
        "            if False:\n",
        f"{_OWNERS}::test_a_zombie_whose_connection_was_lost_does_not_take_the_ledger_back",
    ),
    one(
        "a server that was started anew is gone on with",
        f"{_REDIS}/connection.py",
        "        if self.run_id not in (None, server.run_id) and not self._any_server:\n",
        "        if False:\n",
        f"{_DAMAGE}::test_a_restart_that_lost_nothing_is_read_anew_and_goes_on",
    ),
    one(
        "a ledger is not held against its witness",
        f"{_SHARD}/opening.py",
        "            require_witnessed(place, head.end, witness.seen)\n",
        "            witness.seen = None\n",
        f"{_DAMAGE}::test_a_server_that_lost_its_last_appends_is_told_by_the_witness",
    ),
    one(
        "an emptied server is begun anew beside a witness",
        f"{_REDIS}/ledgers.py",
        "        if seen:\n",
        "        if False:\n",
        f"{_DAMAGE}::test_a_flushed_server_is_told_by_the_next_append_and_by_each_opening",
    ),
    one(
        "what is seen is not written to the witness",
        f"{_REDIS}/witnesses.py",
        "        await self._to_disk(self._see, end)\n",
        "        return\n",
        f"{_DAMAGE}::test_a_server_that_lost_its_last_appends_is_told_by_the_witness",
    ),
    one(
        "a server that evicts holds a ledger",
        f"{_REDIS}/server.py",
        "        if policy != NOEVICTION:\n",
        "        if False:\n",
        f"{_SERVER}::test_a_server_that_evicts_is_refused_before_anything_is_written",
    ),
    one(
        "a replica holds a ledger",
        f"{_REDIS}/server.py",
        '        if self.info.get("role") != "master":\n',
        "        if False:\n",
        f"{_SERVER}::test_a_replica_holds_no_ledger",
    ),
    one(
        "what too few replicas have is acknowledged",
        f"{_SHARD}/head.py",
        "        if not isinstance(count, int) or count < place.address.wait_replicas:\n",
        "        if False:\n",
        f"{_SERVER}::test_with_wait_replicas_nothing_is_acknowledged_that_a_failover_could_lose",
    ),
    one(
        "a full server's refusal is unknown",
        f"{_REDIS}/connection.py",
        "    OutOfMemoryError,\n    ReadOnlyError,\n)\n_BEFORE_CODES",
        "    ReadOnlyError,\n)\n_BEFORE_CODES",
        f"{_SERVER}::test_a_full_server_refuses_appends_and_takes_them_again_by_itself",
    ),
    one(
        "a part of a cluster holds a ledger",
        f"{_REDIS}/server.py",
        '        if self.info.get("cluster_enabled") == "1":\n',
        "        if False:\n",
        f"{_SERVER}::test_a_part_of_a_cluster_holds_no_ledger",
    ),
    one(
        "a server that is away is told as a bug",
        f"{_REDIS}/connection.py",
        "class Unreachable(ConnectionError):\n",
        "class Unreachable(Exception):\n",
        "tests/faults/redis/test_served.py::test_a_server_that_is_away_or_full_is_told_and_all_goes_on_by_itself",
    ),
    one(
        "a ledger of claims only takes rows",
        f"{_REDIS}/ledgers.py",
        "row_topics=NoTopics() if self._address.claims_only else None,\n",
        "row_topics=None,\n",
        f"{_CLAIMS}::test_claims_are_kept_and_rows_are_refused_before_any_effect",
    ),
    one(
        "what was staged before is committed to a ledger of claims only",
        "service/oncegate/engine/usecases/batches.py",
        "        if chunks:\n",
        "        if False:\n",
        f"{_CLAIMS}::test_rows_that_were_written_and_staged_before_stay_and_are_served_once_rows_are_kept_again",
    ),
    one(
        "an append beside a look at the head passes for a server that was set back",
        f"{_SHARD}/writer.py",
        "        end = self.fold.end\n        head = await read_head(link, self._place)\n        if",
        "        head = await read_head(link, self._place)\n        end = self.fold.end\n        if",
        f"{_OWNERS}::test_an_append_beside_a_look_at_the_head_does_not_make_an_honest_server_one_that_was_set_back",
    ),
    one(
        "rows that a refused append was to drop stay for ever",
        f"{_SHARD}/ledger.py",
        "            gone = self._gone[:DROPPED_AT_ONCE]\n",
        "            gone, self._gone = self._gone[:DROPPED_AT_ONCE], self._gone[DROPPED_AT_ONCE:]\n",
        f"{_OWNERS}::test_rows_that_a_refused_append_was_to_drop_leave_the_server_later",
    ),
    one(
        "an append whose frame is the first that is kept is unknown",
        f"{_SHARD}/writer.py",
        "first > end.serial:",
        "first >= end.serial:",
        f"{_OWNERS}::test_an_append_in_doubt_is_known_for_as_long_as_its_successor_keeps_the_frame",
    ),
    one(
        "a trim that failed is taken for done",
        f"{_SHARD}/ledger.py",
        "        async with self._one:\n            self._require_alive()\n            await self._dying(self._writer.trim(self._place.frames, ",
        "        self._shortened_to = compacted.position\n        async with self._one:\n            self._require_alive()\n"
        "            await self._dying(self._writer.trim(self._place.frames, ",
        f"{_SERVER}::test_what_nothing_needs_is_deleted_after_a_deletion_that_failed",
    ),
    one(
        "rows whose deletion failed stay for ever",
        f"{_SHARD}/ledger.py",
        "                await self._dying(self._writer.drop(some))\n                self._gone[: len(some)] = []\n",
        "                self._gone[: len(some)] = []\n                await self._dying(self._writer.drop(some))\n",
        f"{_SERVER}::test_what_nothing_needs_is_deleted_after_a_deletion_that_failed",
    ),
    one(
        "a witness is looked at before its folder is locked",
        f"{_REDIS}/witnesses.py",
        "        with locked_folder(self._path.parent):\n            if self._has_followed(self._path, fence):\n                return\n",
        "        if self._has_followed(self._path, fence):\n            return\n        with locked_folder(self._path.parent):\n",
        f"{_OWNERS}::test_a_witness_stays_with_the_later_owner_that_had_the_folder_first",
    ),
    one(
        "a deletion forgets the witness before it is written",
        f"{_REDIS}/ledgers.py",
        "            await self._list.change(lambda listed: _deleted(listed, namespace))\n            with suppress(OSError):  # it is of a ledger that is never asked for again\n                self._witnesses.forget(place.name)\n",
        "            with suppress(OSError):  # it is of a ledger that is never asked for again\n                self._witnesses.forget(place.name)\n            await self._list.change(lambda listed: _deleted(listed, namespace))\n",
        f"{_ONE}::test_a_deletion_that_is_refused_leaves_the_witness_by_which_a_set_back_is_seen",
    ),
    one(
        "a namespace is listed as made before its keys are",
        f"{_REDIS}/ledgers.py",
        "        link = Link(self._address)\n        try:\n            with unreachable(self._address):\n                await make_place",
        "        await self._change(namespace, place.listed, replace(place.listed, made=True))\n        link = Link(self._address)\n        try:\n            with unreachable(self._address):\n                await make_place",
        f"{_ONE}::test_a_namespace_whose_keys_could_not_be_made_is_made_at_the_next_try",
    ),
    one(
        "a list that was refused is believed at the next look",
        f"{_REDIS}/namespaces.py",
        '        if self.listed.id not in (b"", found.id):\n            raise self._gone()\n        self.listed = found\n',
        '        before, self.listed = self.listed, found\n        if before.id not in (b"", found.id):\n            raise self._gone()\n',
        f"{_DAMAGE}::test_a_list_that_others_made_on_an_emptied_server_is_refused_at_each_look",
    ),
)
