"""Planted bugs of deleted namespaces."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import LOG

_GATEWAY = "service/oncegate/engine/gateway.py"
_DELETED = f"{LOG}/deleted.py"
_ENGINE = "tests/engine/test_deleted_namespaces.py"
_LEDGER = "tests/faults/ledger/test_deleted_ledgers.py"
_CRASHES = f"{_LEDGER}::test_every_crash_leaves_the_ledger_whole_or_deleted_and_the_name_of_use"
_KEPT = f"{_LEDGER}::test_a_deleted_ledger_is_kept_byte_by_byte_beside_the_others"
_UNDER_WAY = f"{_ENGINE}::test_what_is_under_way_is_answered_and_what_comes_then_is_refused"

DELETION: tuple[Mutant, ...] = (
    one(
        "a namespace that holds ids is deleted unasked",
        "service/oncegate/index/shard.py",
        '            "ids": self.claims.known_ids,\n',
        "",
        f"{_ENGINE}::test_a_namespace_that_holds_something_is_kept_until_its_name_is_said",
    ),
    one(
        "what waits to become durable is not held",
        "service/oncegate/engine/shard.py",
        "        await group_commit.all_durable()\n        while group_commit.next_position - 1 > group_commit.mark.position:\n"
        "            await group_commit.all_durable()\n",
        "",
        f"{_ENGINE}::test_what_is_not_yet_durable_counts_as_held",
    ),
    one(
        "any text confirms a deletion",
        _GATEWAY,
        "        if confirm is not None and confirm != namespace:\n",
        "        if False:\n",
        f"{_ENGINE}::test_a_namespace_that_holds_something_is_kept_until_its_name_is_said",
    ),
    one(
        "the default namespace is deleted",
        _GATEWAY,
        "        if namespace == DEFAULT_NAMESPACE:\n",
        "        if False:\n",
        f"{_ENGINE}::test_the_default_namespace_is_never_deleted",
    ),
    one(
        "a late repeat deletes what was made since",
        _GATEWAY,
        "            if marks or not confirmed or namespace not in self._owners:\n",
        "            if not confirmed or namespace not in self._owners:\n",
        f"{_ENGINE}::test_a_late_repeat_does_not_delete_what_was_made_since",
    ),
    one(
        "a deleted namespace's name answers from its old index",
        _GATEWAY,
        "            del self._owners[namespace]\n",
        "            owner.ended = None\n",
        f"{_ENGINE}::test_a_name_that_is_used_again_knows_nothing_of_the_old_ids_marks_and_claims",
    ),
    one(
        "what comes while a namespace is being deleted is taken",
        _GATEWAY,
        "        if owner.ended is not None:\n",
        "        if False:\n",
        _UNDER_WAY,
    ),
    one(
        "who is refused by a deletion is told that the gateway shuts down",
        "service/oncegate/engine/commit/group_commit.py",
        "        self._refusal = refusal if refusal is not None else self._refusal\n",
        "",
        _UNDER_WAY,
    ),
    one(
        "a caller that goes away stops the deletion",
        _GATEWAY,
        "        await asyncio.shield(self._begin_deletion(",
        "        await (self._begin_deletion(",
        f"{_ENGINE}::test_whoever_goes_away_does_not_stop_a_deletion",
    ),
    one(
        "who waits for a namespace that opens waits for ever when it is deleted",
        "service/oncegate/engine/recovery/owner.py",
        "        self._end_opening(self.ended or LedgerDown(",
        "        (self.ended or LedgerDown(",
        f"{_ENGINE}::test_who_waits_for_a_namespace_that_opens_is_told_when_it_is_deleted",
    ),
    one(
        "a ledger whose deletion failed is served no more",
        _GATEWAY,
        "                    await self._own(namespace)\n                raise\n",
        "                    pass\n                raise\n",
        f"{_ENGINE}::test_a_ledger_that_cannot_be_deleted_serves_on",
    ),
    Mutant(
        "a deleted namespace's folder is unlinked",
        (
            (
                _DELETED,
                "        disk.rename(root / namespace, aside)\n",
                "        __import__('shutil').rmtree(root / namespace)\n        aside.mkdir()\n",
            ),
        ),
        (_KEPT,),
    ),
    one(
        "a deleted ledger's witness is removed",
        _DELETED,
        '        disk.rename(path, witness_path(folder, f"{namespace}.{ledger.hex()}"))\n',
        "        disk.unlink(path)\n",
        _KEPT,
    ),
    one(
        "the lists forget a ledger before its folder is moved",
        f"{LOG}/data_dir.py",
        "            self.require()\n            set_aside(",
        "            self.require()\n            write_list(self.disk, self.root, others)\n"
        "            write_list(self.disk, self.witness, others)\n            set_aside(",
        _CRASHES,
    ),
    one(
        "a deletion is said before its rename is durable",
        _DELETED,
        "        disk.sync_folder(aside.parent)\n        disk.sync_folder(root)\n    finally",
        "    finally",
        _CRASHES,
    ),
    one(
        "a start does not end a deletion that was cut short",
        f"{LOG}/data_dir.py",
        "            else:\n                self._go_on(listed, witnessed)\n",
        "            elif self.ledgers != listed:\n                write_list(self.disk, self.root, self.ledgers)\n",
        _CRASHES,
    ),
    one(
        "a ledger is moved from under its owner",
        _DELETED,
        '    lock = FolderLock(root / namespace / SHARD_NAME, f"ledger {namespace}")\n',
        '    lock = FolderLock(root / "default", "none")\n',
        f"{_LEDGER}::test_a_ledger_that_is_open_is_not_deleted",
    ),
    one(
        "a full disk refuses a deletion that has taken place",
        f"{LOG}/data_dir.py",
        '        except OSError as error:\n            raise LedgerDown(\n                f"ledger {namespace} was moved',
        '        except ZeroDivisionError as error:\n            raise LedgerDown(\n                f"ledger {namespace} was moved',
        f"{_LEDGER}::test_wherever_the_disk_fails_a_repeat_or_a_start_ends_it",
    ),
    one(
        "settings reserve the length that was announced",
        "service/oncegate/transports/http/routes/service.py",
        "read_body(request, size_bytes, deadline, room.arrived, gateway.limits)",
        "read_body(request, size_bytes, deadline, lambda _: room.arrived(0), gateway.limits)",
        "tests/transports/http/test_namespaces.py::test_settings_that_are_announced_and_do_not_come_take_no_room_from_others",
    ),
    one(
        "a client brings a deleted ledger's mark",
        "spark_client/oncegate_spark/protocol/calls/namespace.py",
        "        self.tries.marks.forget()\n",
        "",
        "tests/client/protocol/test_calls.py::test_a_namespace_is_deleted_with_its_name_if_that_was_said_and_its_mark_is_brought_no_more",
    ),
)
