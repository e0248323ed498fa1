"""Bugs of verbs that look and carry: the doctor, audit, export and import."""

from tests.mutants.mutant import one

CLI, AUDIT = "service/oncegate/cli", "service/oncegate/verifier/audit"
_CARRY, _CARRYING = "tests/cli/test_carry.py", "tests/engine/usecases/test_carrying.py"
_ENGINE = "service/oncegate/engine/usecases/operations"
_REPLAY = "tests/cli/test_replay.py"
_DOCTOR, _AUDIT = "tests/cli/test_doctor.py", "tests/cli/test_audit.py"

VERBS = (
    one(
        "a doctor that finds something wrong is content",
        f"{CLI}/doctor/verb.py",
        "        if any(finding.level is Level.WRONG for finding in found):\n",
        "        if not found:\n",
        f"{_DOCTOR}::test_without_a_gateway_the_rest_is_checked_and_one_that_was_named_is_missed",
    ),
    one(
        "a doctor leaves what it tried with",
        f"{CLI}/doctor/gateway.py",
        "        shutil.rmtree(remains)\n",
        "",
        f"{_DOCTOR}::test_a_whole_installation_is_well_and_the_claim_leaves_no_namespace_and_no_folder",
    ),
    one(
        "a doctor that is told of no claim",
        f"{CLI}/doctor/verb.py",
        '    yield from _seen("claim", lambda: gateway.claim(reached, folders))\n',
        "",
        f"{_DOCTOR}::test_a_whole_installation_is_well_and_the_claim_leaves_no_namespace_and_no_folder",
    ),
    one(
        "a doctor overlooks a port that is taken",
        f"{CLI}/doctor/machine.py",
        "            tried.bind((host, port))\n",
        "",
        f"{_DOCTOR}::test_a_port_that_somebody_has_is_wrong",
    ),
    one(
        "a doctor overlooks that the witness is gone",
        f"{CLI}/doctor/data.py",
        "    if there[0] != there[1] and",
        "    if there[0] and there[1] and",
        f"{_DOCTOR}::test_one_folder_of_the_pair_alone_is_wrong_and_so_is_one_that_everybody_writes",
    ),
    one(
        "an audit takes the later copy for the first",
        f"{AUDIT}/count.py",
        "np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))",
        "np.lexsort((~rows[:, 2], rows[:, 1], rows[:, 0]))",
        f"{_AUDIT}::test_a_table_is_told_by_copies_ages_causes_and_horizons",
    ),
    one(
        "an audit counts rows without an id as copies",
        f"{AUDIT}/count.py",
        "        ids = fingerprints(rows.ids.filter(there), self._printer, first)\n",
        "        there[:] = True\n        ids = fingerprints(rows.ids.filter(there), self._printer, first)\n",
        f"{_AUDIT}::test_a_table_is_told_by_copies_ages_causes_and_horizons",
    ),
    one(
        "an audit guesses a cause",
        f"{AUDIT}/report.py",
        "    (None, True): Cause.UNKNOWN,\n",
        "    (None, True): Cause.TASK_RETRY,\n",
        f"{_AUDIT}::test_what_the_rows_do_not_say_is_not_known_and_not_guessed",
    ),
    one(
        "writers that stand beside other rows",
        f"{AUDIT}/count.py",
        "self._writers.load(bucket)[order, 2]",
        "self._writers.load(bucket)[:, 2]",
        f"{_AUDIT}::test_a_table_is_told_by_copies_ages_causes_and_horizons",
    ),
    one(
        "an import makes a taken id everybody's",
        f"{_ENGINE}/carrying.py",
        "        if owner != NO_CLAIM:\n",
        "        if owner == NO_CLAIM and False:\n",
        f"{_CARRYING}::test_done_is_done_and_taken_is_its_owners_also_after_a_restart",
    ),
    one(
        "an import over a claim",
        "service/oncegate/core/importing.py",
        "    (Action.BUSY, False): _HELD,\n",
        "    (Action.BUSY, False): _ADD,\n",
        f"{_CARRYING}::test_what_a_claim_holds_and_what_is_anothers_refuse_all_of_it",
    ),
    one(
        "an import over another owner",
        "service/oncegate/core/importing.py",
        "    (Action.DUPLICATE, True): _OTHER,\n",
        "    (Action.DUPLICATE, True): _KNOWN,\n",
        f"{_CARRYING}::test_what_a_claim_holds_and_what_is_anothers_refuse_all_of_it",
    ),
    one(
        "an export of ids that claims hold",
        "service/oncegate/index/snapshot/listing.py",
        "(state == DONE) | (state == TAKEN)",
        "state != 255",
        f"{_CARRYING}::test_what_is_listed_of_one_index_is_what_another_takes_in",
    ),
    one(
        "a namespace of another key takes ids in",
        "service/oncegate/engine/gateway.py",
        "        if key is not None and self.shard(namespace).key_check != key_check(key):\n",
        "        if False:\n",
        f"{_CARRY}::test_a_namespace_of_another_key_takes_nothing_in",
    ),
    one(
        "a ledger of its own key, whatever was given",
        "service/oncegate/ledgers/log/files/keys.py",
        "    key = given or os.urandom(_KEY_BYTES)\n",
        "    key = os.urandom(_KEY_BYTES)\n",
        "tests/testing/test_ledgers.py::test_the_ledger_keeps_its_promises[log-namespaces_are_apart]",
    ),
    one(
        "an exported key that everybody may read",
        f"{CLI}/carry/export.py",
        "os.O_EXCL, 0o600)",
        "os.O_EXCL, 0o644)",
        f"{_CARRY}::test_a_round_trip_keeps_what_is_known_as_known[log]",
    ),
    one(
        "an export of a ledger on Kafka ends at the first frame",
        "service/oncegate/ledgers/kafka/followed.py",
        "            pass  # the snapshot comes first, and only now is it known\n",
        "            return\n",
        "tests/faults/kafka/test_export.py::test_ids_that_a_ledger_on_kafka_knows_are_known_where_they_are_imported",
    ),
    one(
        "a replay that counts what it dropped as written",
        "service/oncegate/verifier/replay.py",
        "        written = (kinds == Verdict.GRANTED) | (kinds == Verdict.FREE) | own\n",
        "        written = (kinds != Verdict.CONFLICT) | own\n",
        f"{_REPLAY}::test_a_file_of_which_half_was_written_is_whole_afterwards_and_stays_so",
    ),
    one(
        "a replay goes on over a conflict that nobody let it drop",
        "service/oncegate/verifier/replay.py",
        "        if len(at) and not self._order.drops_conflicts:\n",
        "        if False:\n",
        f"{_REPLAY}::test_a_row_whose_id_has_other_content_ends_it_or_is_left_out",
    ),
    one(
        "a dry run that writes",
        f"{CLI}/operating/replay.py",
        "run.look_up if dry_run else run.write)",
        "run.write)",
        f"{_REPLAY}::test_a_dry_run_says_what_would_be_written_and_writes_nothing",
    ),
    one(
        "a replay that nobody hears of",
        f"{CLI}/operating/replay.py",
        "            if not dry_run:\n",
        "            if False:\n",
        f"{_REPLAY}::test_a_file_of_which_half_was_written_is_whole_afterwards_and_stays_so",
    ),
    one(
        "a replay whose rows are all new goes on",
        f"{CLI}/operating/replay.py",
        "            if not (dry_run or allow_none_known):\n",
        "            if False:\n",
        f"{_REPLAY}::test_nothing_is_written_where_none_of_the_rows_is_known_unless_one_says_so",
    ),
    one(
        "a row that repeats another of its request is known",
        "service/oncegate/verifier/replay.py",
        "(Verdict.GRANTED, Verdict.FREE, Verdict.SAME)).all()",
        "(Verdict.GRANTED, Verdict.FREE)).all()",
        f"{_REPLAY}::test_nothing_is_written_where_none_of_the_rows_is_known_unless_one_says_so",
    ),
    one(
        "a replay that counts a row of an earlier request as written again",
        "service/oncegate/verifier/replay.py",
        " != 0) & repeated\n",
        " != 0)\n",
        f"{_REPLAY}::test_nothing_is_written_where_none_of_the_rows_is_known_unless_one_says_so",
    ),
    one(
        "a replay that counts what it sent twice as not written",
        "service/oncegate/verifier/replay.py",
        "self._gateway.repeats != repeats)",
        "False)",
        f"{_REPLAY}::test_a_request_whose_reply_is_lost_is_sent_again_and_its_rows_count_as_written",
    ),
    one(
        "a replay into a topic that is not there",
        f"{CLI}/operating/replay.py",
        '    known = ask(f"/topics/{quote(order.topic, safe=\'\')}")["schema_ipc"]\n',
        "    known = None\n",
        f"{_REPLAY}::test_what_is_wrong_is_told_in_one_line_and_leaves_no_word",
    ),
)
