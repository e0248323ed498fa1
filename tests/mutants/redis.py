"""Planted bugs of ledgers on Redis."""

from tests.mutants.edits import Text, delete, insert, replace, replace_statement, shift, swap, without
from tests.mutants.mutant import Mutant, one

_OWNERS = "tests/faults/redis/test_ledger_ownership.py"
_DAMAGE = "tests/faults/redis/test_ledger_damage.py"
_CLAIMS = "tests/faults/redis/test_claims_only.py"
_SERVER = "tests/faults/redis/test_server_faults.py"
_ONE = "tests/faults/redis/test_one_namespace.py"

REDIS: tuple[Mutant, ...] = (
    one(
        "only the next append reports an unavailable server",
        "oncegate.ledgers.redis.shard.ledger::RedisLedger.keep_up",
        delete("self._away = unusable(self._place.address, error)"),
        "tests/faults/redis/test_ledger_damage.py::test_an_unavailable_server_is_detected_without_an_append",
    ),
    one(
        "a compaction in doubt leaves what waits for it in doubt",
        "oncegate.ledgers.server.ledger::RemoteLedger._dying",
        replace("not (by_append or isinstance(why, LedgerFenced))", "False"),
        f"{_OWNERS}::test_a_compaction_in_doubt_leaves_no_append_in_doubt_that_waits",
    ),
    one(
        "a gateway whose server is away is ready until something is written",
        "oncegate.engine.recovery.owner::Owner._holds",
        replace("self._away() is not None", "False"),
        "tests/engine/recovery/test_away.py::test_a_ledger_that_is_away_is_reported_and_serves_again_without_a_new_opening",
    ),
    one(
        "a ledger that its upkeep has found damaged is served until something is written",
        "oncegate.ledgers.redis.shard.ledger::RedisLedger.keep_up",
        delete("self.end_beside(error)"),
        f"{_DAMAGE}::test_a_flushed_server_is_detected_without_an_append",
    ),
    one(
        "an owner that was followed writes over its successor's witness",
        "oncegate.ledgers.redis.witnesses::Witness._own",
        replace("self._has_followed(self._path, fence)", "False"),
        f"{_OWNERS}::test_a_witness_stays_with_the_later_owner",
    ),
    one(
        "an append is taken with any fence",
        "service/oncegate/ledgers/redis/lua/append.lua",
        Text("if head[1] ~= ARGV[1] then\n", "if false then\n"),
        f"{_OWNERS}::test_a_late_copy_of_an_append_that_was_refused_is_never_written",
    ),
    one(
        "an opening that comes late takes the ledger",
        "service/oncegate/ledgers/redis/lua/own.lua",
        Text("if head[2] ~= ARGV[2] then\n", "if false then\n"),
        f"{_OWNERS}::test_an_opening_that_comes_late_owns_nothing",
    ),
    one(
        "an append in doubt is taken for refused",
        "oncegate.ledgers.redis.shard.writer::FrameWriter._decide",
        replace("head.end == end", "False"),
        f"{_OWNERS}::test_an_append_whose_answer_is_lost_is_found_written",
    ),
    one(
        "an append in doubt is taken for written",
        "oncegate.ledgers.redis.shard.writer::FrameWriter._decide",
        replace("head.end == end", "True"),
        f"{_OWNERS}::test_an_append_that_never_arrived_is_sent_again_and_written_once",
    ),
    one(
        "a zombie takes the ledger back over a new connection",
        "oncegate.ledgers.redis.shard.writer::FrameWriter._renewed",
        replace("read.holder != self._holder", "False"),
        f"{_OWNERS}::test_a_zombie_whose_connection_was_lost_does_not_take_the_ledger_back",
    ),
    one(
        "an owner continues on a restarted server",
        "oncegate.ledgers.redis.connection::Link._connect",
        replace("self.run_id not in (None, server.run_id) and (not self._any_server)", "False"),
        f"{_DAMAGE}::test_a_restart_without_losses_is_read_again_and_continues",
    ),
    one(
        "a ledger is not compared with its witness",
        "oncegate.ledgers.redis.shard.opening::open_place",
        replace_statement("require_witnessed(...)", "witness.seen = None"),
        f"{_DAMAGE}::test_a_server_that_lost_its_last_appends_is_detected_by_the_witness",
    ),
    one(
        "an emptied server is initialized despite a witness",
        "oncegate.ledgers.redis.ledgers::RedisLedgers._begin_list",
        replace("seen", "False", nth=2),
        f"{_DAMAGE}::test_a_flushed_server_is_detected_by_the_next_append_and_by_each_opening",
    ),
    one(
        "positions that were seen are not written to the witness",
        "oncegate.ledgers.redis.witnesses::Witness.see",
        replace_statement("await self._to_disk(...)", "return"),
        f"{_DAMAGE}::test_a_server_that_lost_its_last_appends_is_detected_by_the_witness",
    ),
    one(
        "a server that evicts holds a ledger",
        "oncegate.ledgers.redis.server::Server.require_fit",
        replace("policy != NOEVICTION", "False"),
        f"{_SERVER}::test_a_server_that_evicts_is_refused_before_anything_is_written",
    ),
    one(
        "a replica holds a ledger",
        "oncegate.ledgers.redis.server::Server.require_fit",
        replace("self.info.get('role') != 'master'", "False"),
        f"{_SERVER}::test_a_replica_holds_no_ledger",
    ),
    one(
        "what too few replicas have is acknowledged",
        "oncegate.ledgers.redis.shard.head::require_replicas",
        replace("not isinstance(count, int) or count < place.address.wait_replicas", "False"),
        f"{_SERVER}::test_with_wait_replicas_nothing_is_acknowledged_that_a_failover_could_lose",
    ),
    one(
        "a full server's refusal is unknown",
        "oncegate.ledgers.redis.connection::_BEFORE",
        without("OutOfMemoryError"),
        f"{_SERVER}::test_a_full_server_refuses_appends_and_takes_them_again_by_itself",
    ),
    one(
        "a part of a cluster holds a ledger",
        "oncegate.ledgers.redis.server::Server.require_fit",
        replace("self.info.get('cluster_enabled') == '1'", "False"),
        f"{_SERVER}::test_a_part_of_a_cluster_holds_no_ledger",
    ),
    one(
        "an unavailable server is reported as a bug",
        "oncegate.ledgers.redis.connection::Unreachable",
        replace("ConnectionError", "Exception"),
        "tests/faults/redis/test_served.py::test_an_unavailable_or_full_server_is_reported_and_everything_continues_by_itself",
    ),
    one(
        "a ledger of claims only takes rows",
        "oncegate.ledgers.redis.shard.ledger::RedisLedger.__init__",
        replace("NoTopics() if place.address.claims_only else None", "None"),
        f"{_CLAIMS}::test_claims_are_kept_and_rows_are_refused_before_any_effect",
    ),
    one(
        "earlier stages are committed to a ledger of claims only",
        "oncegate.engine.usecases.batches::Batches._check_writable",
        replace_statement(
            "if chunks:\n    ...",
            (
                "if False:\n"
                "    size_bytes = sum((part.size_bytes for chunk in chunks for part in "
                "chunk.parts))\n"
                "    column_topics = sorted({one.decode() for chunk in chunks for one in "
                "chunk.column_topics})\n"
                "    return await self._topics.check_writable(topic, "
                "read_schema(chunks[0].schema), size_bytes, column_topics)"
            ),
        ),
        f"{_CLAIMS}::test_rows_that_were_written_and_staged_before_stay_and_are_served_once_rows_are_kept_again",
    ),
    one(
        "an append beside a look at the head passes for a server that was set back",
        "oncegate.ledgers.redis.shard.writer::FrameWriter.look",
        swap("end = self.fold.end", "head = await read_head(link, self._place)"),
        f"{_OWNERS}::test_an_append_beside_a_look_at_the_head_does_not_make_an_honest_server_one_that_was_set_back",
    ),
    Mutant(
        "rows that a refused append was to drop stay for ever",
        (
            ("oncegate.ledgers.redis.shard.ledger::RedisLedger._append", replace("gone", "(gone, self._gone)", nth=1)),
            (
                "oncegate.ledgers.redis.shard.ledger::RedisLedger._append",
                replace("self._gone[:DROPPED_AT_ONCE]", "(self._gone[:DROPPED_AT_ONCE], self._gone[DROPPED_AT_ONCE:])"),
            ),
        ),
        (f"{_OWNERS}::test_rows_that_a_refused_append_was_to_drop_leave_the_server_later",),
    ),
    one(
        "an append whose frame is the first that is kept is unknown",
        "oncegate.ledgers.redis.shard.writer::FrameWriter._followed",
        shift("first > end.serial"),
        f"{_OWNERS}::test_an_append_in_doubt_is_known_for_as_long_as_its_successor_keeps_the_frame",
    ),
    one(
        "a trim that failed is taken for done",
        "oncegate.ledgers.redis.shard.ledger::RedisLedger._shorten",
        insert(
            "self._shortened_to = compacted.position",
            after=("if compacted is None or compacted.position <= self._shortened_to or self._replays:\n    ..."),
        ),
        f"{_SERVER}::test_what_nothing_needs_is_deleted_after_a_deletion_that_failed",
    ),
    one(
        "rows whose deletion failed stay for ever",
        "oncegate.ledgers.redis.shard.ledger::RedisLedger._shorten",
        swap("await self._dying(self._writer.drop(some))", "self._gone[:len(some)] = []"),
        f"{_SERVER}::test_what_nothing_needs_is_deleted_after_a_deletion_that_failed",
    ),
    one(
        "a witness is looked at before its folder is locked",
        "oncegate.ledgers.redis.witnesses::Witness._own",
        replace_statement(
            "with locked_folder(self._path.parent):\n    ...",
            (
                "if self._has_followed(self._path, fence):\n"
                "    return\n"
                "with locked_folder(self._path.parent):\n"
                "    create_witness(self._disk, self._path, self._ledger, fence, _reached(end))\n"
                "    self._writer = WitnessWriter(self._disk, self._path, self._ledger, fence, 0)"
            ),
        ),
        f"{_OWNERS}::test_a_witness_stays_with_the_later_owner_that_had_the_folder_first",
    ),
    one(
        "a deletion forgets the witness before it is written",
        "oncegate.ledgers.server.ledgers::ServerLedgers.delete",
        swap("await self._list.change(...)", "self._forget(location)"),
        f"{_ONE}::test_a_deletion_that_is_refused_leaves_the_witness_by_which_a_set_back_is_seen",
    ),
    one(
        "a namespace is listed as made before its keys are",
        "oncegate.ledgers.redis.ledgers::RedisLedgers._made",
        insert(
            "await self._change(namespace, place.listed, made=True)",
            before="link = Link(self._address)",
        ),
        f"{_ONE}::test_a_namespace_whose_keys_could_not_be_made_is_made_at_the_next_try",
    ),
    Mutant(
        "a list that was refused is believed at the next look",
        (
            (
                "oncegate.ledgers.redis.namespaces::NamespaceHash.refresh",
                replace_statement(
                    "if self.listed.id not in (b'', listed.id):\n    ...",
                    (
                        "before, self.listed = (self.listed, listed)\n"
                        "if before.id not in (b'', listed.id):\n"
                        "    raise self._gone()"
                    ),
                ),
            ),
            ("oncegate.ledgers.redis.namespaces::NamespaceHash.refresh", delete("self.listed = listed")),
        ),
        (f"{_DAMAGE}::test_a_list_that_others_made_on_an_emptied_server_is_refused_at_each_look",),
    ),
)
