"""Planted bugs of deleted namespaces."""

from tests.mutants.edits import delete, insert, replace, replace_statement, without
from tests.mutants.mutant import Mutant, one

_ENGINE = "tests/engine/test_deleted_namespaces.py"
_LEDGER = "tests/faults/ledger/test_deleted_ledgers.py"
_CRASHES = f"{_LEDGER}::test_every_crash_leaves_the_ledger_whole_or_deleted_and_the_name_of_use"
_KEPT = f"{_LEDGER}::test_a_deleted_ledger_is_kept_byte_by_byte_beside_the_others"
_UNDER_WAY = f"{_ENGINE}::test_requests_under_way_are_answered_and_later_ones_refused"

DELETION: tuple[Mutant, ...] = (
    one(
        "a namespace that holds ids is deleted unasked",
        "oncegate.index.claims.parts::ClaimParts._count",
        without("'ids'"),
        f"{_ENGINE}::test_a_non_empty_namespace_is_kept_until_its_name_is_given",
    ),
    Mutant(
        "what waits to become durable is not held",
        (
            ("oncegate.engine.namespace::Namespace.require_empty", delete("await group_commit.all_durable()", nth=1)),
            (
                "oncegate.engine.namespace::Namespace.require_empty",
                delete("while group_commit.next_position - 1 > group_commit.mark.position:\n    ..."),
            ),
        ),
        (f"{_ENGINE}::test_changes_that_are_not_durable_yet_count_as_held",),
    ),
    one(
        "any text confirms a deletion",
        "oncegate.engine.gateway::Gateway.delete",
        replace("confirm is not None and confirm != namespace", "False"),
        f"{_ENGINE}::test_a_non_empty_namespace_is_kept_until_its_name_is_given",
    ),
    one(
        "the default namespace is deleted",
        "oncegate.engine.gateway::Gateway.delete",
        replace("namespace == DEFAULT_NAMESPACE", "False"),
        f"{_ENGINE}::test_the_default_namespace_is_never_deleted",
    ),
    one(
        "a late repeat deletes what was made since",
        "oncegate.engine.gateway::Gateway._delete",
        replace(
            "marks or not confirmed or namespace not in self._owners", "not confirmed or namespace not in self._owners"
        ),
        f"{_ENGINE}::test_a_late_repeat_does_not_delete_what_was_made_since",
    ),
    one(
        "a deleted namespace's name answers from its old index",
        "oncegate.engine.gateway::Gateway._delete",
        replace_statement("del self._owners[namespace]", "owner._cause = None"),
        f"{_ENGINE}::test_a_name_that_is_used_again_knows_nothing_of_the_old_ids_marks_and_claims",
    ),
    one(
        "requests are accepted while a namespace is being deleted",
        "oncegate.engine.recovery.owner::Owner.serving",
        replace("self._state in SERVES", "True"),
        _UNDER_WAY,
    ),
    one(
        "a refusal by a deletion names the gateway's shutdown as its reason",
        "oncegate.engine.commit.group_commit::GroupCommit.close",
        replace(
            "refusal or LedgerDown('the gateway is shutting down; nothing was written')",
            "LedgerDown('the gateway is shutting down; nothing was written')",
        ),
        _UNDER_WAY,
    ),
    one(
        "a caller that goes away stops the deletion",
        "oncegate.engine.gateway::Gateway.delete",
        replace(
            ("asyncio.shield(self._begin_deletion(self._delete(namespace, confirm == namespace, marks, deadline)))"),
            "self._begin_deletion(self._delete(namespace, confirm == namespace, marks, deadline))",
        ),
        f"{_ENGINE}::test_a_disconnected_caller_does_not_stop_a_deletion",
    ),
    one(
        "who waits for a namespace that opens waits for ever when it is deleted",
        "oncegate.engine.recovery.owner::Owner.close",
        delete("self._end_opening(self.cause)"),
        f"{_ENGINE}::test_a_caller_that_waits_for_an_opening_namespace_gets_an_error_when_it_is_deleted",
    ),
    one(
        "a ledger whose deletion failed is served no more",
        "oncegate.engine.gateway::Gateway._delete",
        delete("await self._own(...)"),
        f"{_ENGINE}::test_a_ledger_that_cannot_be_deleted_serves_on",
    ),
    Mutant(
        "a deleted namespace's folder is unlinked",
        (
            (
                "oncegate.ledgers.log.deleted::set_aside",
                replace_statement("disk.rename(...)", "__import__('shutil').rmtree(root / namespace)\naside.mkdir()"),
            ),
        ),
        (_KEPT,),
    ),
    one(
        "a deleted ledger's witness is removed",
        "oncegate.ledgers.log.deleted::set_witness_aside",
        replace("disk.rename(path, witness_path(folder, f'{namespace}.{ledger.hex()}'))", "disk.unlink(path)"),
        _KEPT,
    ),
    one(
        "the lists forget a ledger before its folder is moved",
        "oncegate.ledgers.log.data_dir::DataDir.delete",
        insert(
            ("write_list(self.disk, self.root, others)\nwrite_list(self.disk, self.witness, others)"),
            after="self.require()",
        ),
        _CRASHES,
    ),
    Mutant(
        "a deletion is reported before its rename is durable",
        (
            ("oncegate.ledgers.log.deleted::set_aside", delete("disk.sync_folder(aside.parent)")),
            ("oncegate.ledgers.log.deleted::set_aside", delete("disk.sync_folder(root)")),
        ),
        (_CRASHES,),
    ),
    one(
        "a start does not end a deletion that was cut short",
        "oncegate.ledgers.log.data_dir::DataDir.take",
        replace_statement(
            "self._go_on(...)", "if self.ledgers != listed:\n    write_list(self.disk, self.root, self.ledgers)"
        ),
        _CRASHES,
    ),
    one(
        "a ledger is moved from under its owner",
        "oncegate.ledgers.log.deleted::set_aside",
        replace(
            "FolderLock(root / namespace / SHARD_NAME, f'ledger {namespace}')", "FolderLock(root / 'default', 'none')"
        ),
        f"{_LEDGER}::test_a_ledger_that_is_open_is_not_deleted",
    ),
    one(
        "a full disk refuses a deletion that has taken place",
        "oncegate.ledgers.log.data_dir::DataDir.delete",
        replace("OSError", "ZeroDivisionError"),
        f"{_LEDGER}::test_wherever_the_disk_fails_a_repeat_or_a_start_ends_it",
    ),
    one(
        "settings reserve the length that was announced",
        "oncegate.transports.http.routes.service::create_namespace",
        replace("room.arrived", "lambda _: room.arrived(0)"),
        "tests/transports/http/test_namespaces.py::test_settings_that_are_announced_and_do_not_come_take_no_room_from_others",
    ),
    one(
        "a client brings a deleted ledger's mark",
        "oncegate_spark.protocol.calls.namespace::Calls.delete_namespace",
        delete("self.tries.marks.forget()"),
        "tests/client/protocol/test_calls.py::test_a_namespace_is_deleted_with_its_name_if_that_was_said_and_its_mark_is_brought_no_more",
    ),
)
