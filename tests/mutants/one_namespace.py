"""Planted bugs by which one namespace that cannot be served takes others down, or never comes back."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import LOG

_OWNER = "service/oncegate/engine/recovery/owner.py"
_GATEWAY = "service/oncegate/engine/gateway.py"
_OPENING = "service/oncegate/engine/recovery/shard_opening.py"
_HEALTH = "service/oncegate/transports/health.py"
_OTHERS = "tests/engine/recovery/test_others_serve.py"
_FOLDER = "tests/faults/server/test_one_damaged.py"
_MENDED = f"{_OTHERS}::test_what_is_down_is_opened_again_each_minute_and_serves_once_it_is_mended"
_STARTS = f"{_OTHERS}::test_one_namespace_that_cannot_be_opened_is_down_and_the_others_serve"

ONE_NAMESPACE: tuple[Mutant, ...] = (
    one(
        "a namespace that is down is opened no more",
        _OWNER,
        "                    continue\n",
        "                    return\n",
        _MENDED,
    ),
    one(
        "a namespace that is down is opened without a rest",
        _OWNER,
        "RETRY_MS if self._served else max(RETRY_MS, ",
        "RETRY_MS if self._served else max(1, ",
        _MENDED,
    ),
    one(
        "a namespace that ended while it served is opened without a rest",
        _OWNER,
        "RETRY_MS if self._served else max(",
        "1 if self._served else max(",
        f"{_OTHERS}::test_a_namespace_that_is_damaged_while_it_serves_is_mended_without_a_restart",
    ),
    one(
        "damage that takes long to find is looked for all the time",
        _OWNER,
        "RETRY_PAUSES * took_ms",
        "took_ms",
        f"{_OTHERS}::test_damage_that_takes_long_to_find_is_looked_for_in_a_tenth_of_the_time_at_most",
    ),
    one(
        "a namespace that serves again stays down",
        _OWNER,
        "self._served, self._has_served, self.failed = shard, True, True, None\n",
        "self._served, self._has_served = shard, True, True\n",
        _MENDED,
    ),
    one(
        "damage is forgotten when the ledger cannot be reached",
        _OWNER,
        "        if not isinstance(self.failed, Stop) or isinstance(error, Stop):\n",
        "        if True:\n",
        f"{_OTHERS}::test_damage_stays_the_reason_while_the_ledger_cannot_be_reached",
    ),
    one(
        "who asks for a namespace that is down waits for the next opening",
        _OWNER,
        "        if self.failed is not None:\n            raise self.failed.with_traceback(None)\n",
        "",
        f"{_OTHERS}::test_while_it_is_opened_again_it_is_down_and_says_why_at_once",
    ),
    one(
        "the error of a namespace that is down keeps the frames of its opening",
        _OWNER,
        "            self.failed = without_frames(error)\n",
        "            self.failed = error\n",
        f"{_OTHERS}::test_what_is_kept_of_an_error_holds_no_frame_of_the_opening",
    ),
    one(
        "a crash in the upkeep of one namespace ends that of all",
        _OWNER,
        "            self._keep_up(now_ms)\n        except Exception as error:\n",
        "            self._keep_up(now_ms)\n        except OncegateError as error:\n",
        f"{_OTHERS}::test_a_crash_in_the_upkeep_of_one_namespace_leaves_that_of_others_alone",
    ),
    one(
        "an older ledger is served again by who knew a later one",
        _OPENING,
        "    _require_seen(marks, namespace, seen)\n",
        "",
        f"{_OTHERS}::test_a_ledger_that_lost_what_this_process_acknowledged_is_not_served_again",
    ),
    one(
        "one damaged namespace ends a start",
        _GATEWAY,
        "        if refusals and len(refusals) == len(self._owners) and not any(",
        "        if refusals and not any(",
        _STARTS,
    ),
    one(
        "a start that can serve nothing goes on",
        _GATEWAY,
        "            raise refusals[0]\n",
        "            return\n",
        f"{_OTHERS}::test_a_gateway_none_of_whose_namespaces_can_be_opened_does_not_start",
    ),
    one(
        "a start ends where one is damaged and another is opened again soon",
        _GATEWAY,
        " and not any(isinstance(why, Recovering) for why in refusals):\n",
        ":\n",
        f"{_OTHERS}::test_a_gateway_starts_where_one_is_damaged_and_the_other_is_opened_again_soon",
    ),
    one(
        "a start waits for the longest ledger",
        _GATEWAY,
        "        await self.clock.sleep_ms(OPENING_MS)\n",
        "        await self.clock.sleep_ms(OPENING_MS + 1)\n",
        f"{_OTHERS}::test_a_start_waits_for_no_ledger_that_takes_longer_than_seconds",
    ),
    one(
        "one namespace that does not serve makes the gateway not ready",
        _HEALTH,
        "len(waiting) < len(states)",
        "not waiting",
        _STARTS,
    ),
    one(
        "a gateway is ready that serves nothing",
        _HEALTH,
        "len(waiting) < len(states)",
        "len(waiting) <= len(states)",
        f"{_OTHERS}::test_a_gateway_starts_where_one_is_damaged_and_the_other_is_opened_again_soon",
    ),
    one(
        "a probe of one namespace answers for all",
        _HEALTH,
        "        states = {namespace: states[namespace]}\n",
        "",
        _STARTS,
    ),
    one(
        "anybody learns which namespaces there are by a probe of one",
        "service/oncegate/transports/http/routes/service.py",
        "    if namespace is not None and access is not None:  #",
        "    if False:  #",
        "tests/transports/http/test_access_matrix.py"
        "::test_whether_one_namespace_serves_is_told_to_who_has_a_role_there",
    ),
    one(
        "anybody learns which namespaces there are by a probe over gRPC",
        "service/oncegate/transports/grpc/server.py",
        "            if slash and server.access is not None:  #",
        "            if False:  #",
        "tests/transports/grpc/test_access_matrix.py"
        "::test_whether_one_namespace_serves_is_told_to_who_has_a_role_there",
    ),
    one(
        "one folder that is gone refuses the whole data folder",
        f"{LOG}/data_dir.py",
        "        if self.ledgers and not any(self._is_there",
        "        if self.ledgers and not all(self._is_there",
        f"{_FOLDER}::test_verify_names_each_damaged_ledger_and_reads_the_others",
    ),
    one(
        "a data folder of which nothing is left is taken over",
        f"{LOG}/data_dir.py",
        "        if self.ledgers and not any(self._is_there(name) for name in self.ledgers):\n",
        "        if False:\n",
        f"{_FOLDER}::test_a_data_folder_of_which_nothing_is_left_is_refused_and_not_touched",
    ),
    one(
        "a folder that is gone cannot be deleted",
        f"{LOG}/deleted.py",
        "    if not (root / namespace).exists():\n",
        "    if False:\n",
        f"{_FOLDER}::test_a_namespace_whose_folder_is_gone_for_good_is_deleted_by_its_name",
    ),
    one(
        "an accepted ledger is listed alone",
        f"{LOG}/admin/init.py",
        "    data.ledgers = {**data.ledgers, namespace: new}\n",
        "    data.ledgers = {namespace: new}\n",
        f"{_FOLDER}::test_accept_goes_on_with_one_namespace_and_leaves_the_others_as_they_are",
    ),
    one(
        "a verification ends at the first damaged ledger",
        f"{LOG}/admin/verify.py",
        "                yield Refused(namespace, error)\n",
        "                raise\n",
        f"{_FOLDER}::test_verify_names_each_damaged_ledger_and_reads_the_others",
    ),
    one(
        "a backup of nothing is a backup",
        f"{LOG}/admin/backup.py",
        "            if isinstance(one, Refused) and not copied:\n",
        "            if False:\n",
        f"{_FOLDER}::test_a_backup_leaves_a_damaged_ledger_out_names_it_and_can_be_restored",
    ),
    one(
        "a verb that went past damage ends well",
        "service/oncegate/cli/refusals.py",
        "    if not is_whole:\n",
        "    if False:\n",
        f"{_FOLDER}::test_verify_names_each_damaged_ledger_and_reads_the_others",
    ),
)
