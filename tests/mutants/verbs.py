"""Planted bugs of verbs that inspect and transfer: the doctor, audit, export and import."""

from tests.mutants.edits import cell, delete, insert, replace, replace_statement, without
from tests.mutants.mutant import one

CLI, AUDIT = "service/oncegate/cli", "service/oncegate/verifier/audit"
_CARRY, _CARRYING = "tests/cli/test_carry.py", "tests/engine/usecases/test_carrying.py"
_REPLAY = "tests/cli/test_replay.py"
_DOCTOR, _AUDIT = "tests/cli/test_doctor.py", "tests/cli/test_audit.py"

VERBS = (
    one(
        "all verbs are imported where one is run",
        "oncegate.cli::_Group.__init__",
        replace("_Commands(VERBS)", "dict(_Commands(VERBS))"),
        "tests/cli/test_start.py::test_help_of_a_verb_imports_no_other_verb",
        "tests/cli/test_start.py::test_the_version_is_shown_without_the_module_of_any_verb",
    ),
    one(
        "output is written after the verb's errors were handled",
        "oncegate.__main__::main",
        delete("sys.stdout.flush()"),
        "tests/cli/test_verbs.py::test_an_output_that_is_read_no_further_ends_a_verb_without_a_word",
        "tests/cli/test_verbs.py::test_an_output_on_a_full_disk_ends_a_verb_with_one_line",
    ),
    one(
        "a write error is reported again at exit",
        "oncegate.__main__::main",
        delete("os.dup2(...)"),
        "tests/cli/test_verbs.py::test_an_output_on_a_full_disk_ends_a_verb_with_one_line",
    ),
    one(
        "a closed output is a bug of the verb",
        "oncegate.__main__::main",
        delete("setattr(...)"),
        "tests/cli/test_verbs.py::test_a_verb_without_an_output_succeeds_in_silence",
    ),
    one(
        "the module of refusals imports the ledgers",
        "oncegate.cli.refusals",
        insert("from oncegate.ledgers.log.data_dir import Refused", before="T = ..."),
        "tests/cli/test_start.py::test_a_verb_starts_with_its_own_module_and_without_ledgers_settings_and_arrays",
    ),
    one(
        "paragraphs of help break where the source does",
        "oncegate.cli::_Commands.__getitem__",
        delete("let_paragraphs_flow(...)"),
        "tests/cli/test_verbs.py::test_paragraphs_of_help_flow_to_the_edge_and_examples_keep_their_lines",
    ),
    one(
        "an example is run into the paragraph before it",
        "oncegate.cli::_BREAK",
        replace("re.compile('(?<!\\\\n)\\\\n(?!\\\\n|Example: )')", "re.compile('(?<!\\\\n)\\\\n(?!\\\\n)')"),
        "tests/cli/test_verbs.py::test_paragraphs_of_help_flow_to_the_edge_and_examples_keep_their_lines",
    ),
    one(
        "a doctor that finds something wrong is content",
        "oncegate.cli.doctor.verb::doctor",
        replace("any((finding.level is Level.WRONG for finding in findings))", "not findings"),
        f"{_DOCTOR}::test_without_a_gateway_the_rest_is_checked_and_one_that_was_named_is_missed",
    ),
    one(
        "a doctor leaves what it tried with",
        "oncegate.cli.doctor.gateway::_removed",
        delete("shutil.rmtree(...)"),
        f"{_DOCTOR}::test_a_whole_installation_is_well_and_the_claim_leaves_no_namespace_and_no_folder",
    ),
    one(
        "the doctor does not try a claim",
        "oncegate.cli.doctor.checks::findings_of",
        delete("yield from _seen('claim', lambda: gateway.claim(reached, folders, namespace or DEFAULT_NAMESPACE))"),
        f"{_DOCTOR}::test_a_whole_installation_is_well_and_the_claim_leaves_no_namespace_and_no_folder",
    ),
    one(
        "a doctor overlooks a port that is taken",
        "oncegate.cli.doctor.machine::_taken",
        delete("tried.bind(...)"),
        f"{_DOCTOR}::test_a_port_in_use_is_an_error",
    ),
    one(
        "a doctor overlooks that the witness is gone",
        "oncegate.cli.doctor.data::folders",
        replace(
            "there[0] != there[1] and any(data.glob('*')) | any(witness.glob('*'))",
            "there[0] and there[1] and any(data.glob('*')) | any(witness.glob('*'))",
        ),
        f"{_DOCTOR}::test_a_missing_folder_of_the_pair_and_a_world_writable_one_are_errors",
    ),
    one(
        "an audit takes the later copy for the first",
        "oncegate.verifier.audit.count::_Counting.compare",
        replace("rows[:, 2]", "~rows[:, 2]"),
        f"{_AUDIT}::test_a_table_is_summarized_by_copies_ages_causes_and_horizons",
    ),
    one(
        "an audit counts rows without an id as copies",
        "oncegate.verifier.audit.count::_Counting.add",
        insert("there[:] = True", after="self.counts.without_id += int(np.count_nonzero(~there))"),
        f"{_AUDIT}::test_a_table_is_summarized_by_copies_ages_causes_and_horizons",
    ),
    one(
        "an audit guesses a cause",
        "oncegate.verifier.audit.report::CAUSES",
        cell("(None, True)", "Cause.TASK_RETRY"),
        f"{_AUDIT}::test_facts_missing_from_the_rows_are_unknown_and_not_guessed",
    ),
    one(
        "writers are listed beside the wrong rows",
        "oncegate.verifier.audit.count::_Counting.compare",
        replace("self._writers.load(bucket)[order, 2]", "self._writers.load(bucket)[:, 2]"),
        f"{_AUDIT}::test_a_table_is_summarized_by_copies_ages_causes_and_horizons",
    ),
    one(
        "an import makes a taken id available to all",
        "oncegate.engine.usecases.operations.carrying::Carrying._entries",
        replace("owner != NO_CLAIM", "owner == NO_CLAIM and False"),
        f"{_CARRYING}::test_done_is_done_and_taken_is_its_owners_also_after_a_restart",
    ),
    one(
        "an import over a claim",
        "oncegate.core.operator_actions::IMPORT",
        cell("(Action.BUSY, False)", "_ADD"),
        f"{_CARRYING}::test_ids_of_a_claim_and_of_others_refuse_the_whole_import",
    ),
    one(
        "an import over another owner",
        "oncegate.core.operator_actions::IMPORT",
        cell("(Action.DUPLICATE, True)", "_KNOWN"),
        f"{_CARRYING}::test_ids_of_a_claim_and_of_others_refuse_the_whole_import",
    ),
    one(
        "an export of ids that claims hold",
        "oncegate.index.claims.lookup::listed",
        replace("(state == DONE) | (state == TAKEN)", "state != 255"),
        f"{_CARRYING}::test_ids_listed_by_one_index_are_imported_by_another",
    ),
    one(
        "a namespace of another key takes ids in",
        "oncegate.engine.gateway::Gateway.create",
        replace("key is not None and self.namespace(namespace).key_check != key_check(key)", "False"),
        f"{_CARRY}::test_a_namespace_of_another_key_takes_nothing_in",
    ),
    one(
        "a ledger of its own key, whatever was given",
        "oncegate.ledgers.log.files.keys::write_new_key",
        replace("given or os.urandom(_KEY_BYTES)", "os.urandom(_KEY_BYTES)"),
        "tests/testing/test_ledgers.py::test_the_ledger_keeps_its_promises[log-namespaces_are_apart]",
    ),
    one(
        "an exported key is readable by all users",
        "oncegate.cli.carry::_write",
        replace(
            "os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 384)",
            "os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 420)",
        ),
        f"{_CARRY}::test_a_round_trip_keeps_what_is_known_as_known[log]",
    ),
    one(
        "an export of a ledger on Kafka ends at the first frame",
        "oncegate.ledgers.kafka.followed::_all_of",
        replace_statement("pass", "return"),
        "tests/faults/kafka/test_export.py::test_ids_that_a_ledger_on_kafka_knows_are_known_where_they_are_imported",
    ),
    one(
        "a replay that counts what it dropped as written",
        "oncegate.verifier.replay::ReplayCounts.add",
        replace("(kinds == Verdict.GRANTED) | (kinds == Verdict.FREE)", "kinds != Verdict.CONFLICT"),
        f"{_REPLAY}::test_a_file_of_which_half_was_written_is_whole_afterwards_and_stays_so",
    ),
    one(
        "a replay continues past a conflict without permission to drop it",
        "oncegate.verifier.replay::Replay._check_conflicts",
        replace("len(at) and (not self._order.drops_conflicts)", "False"),
        f"{_REPLAY}::test_a_row_whose_id_has_other_content_ends_it_or_is_left_out",
    ),
    one(
        "a dry run that writes",
        "oncegate.cli.replay::replay",
        replace("run.look_up if dry_run else run.write", "run.write"),
        f"{_REPLAY}::test_a_dry_run_reports_the_rows_to_write_and_writes_nothing",
    ),
    one(
        "a replay does not write its entry in the audit trail",
        "oncegate.cli.replay::replay",
        replace("not dry_run", "False"),
        f"{_REPLAY}::test_a_file_of_which_half_was_written_is_whole_afterwards_and_stays_so",
    ),
    one(
        "a replay whose rows are all new continues",
        "oncegate.cli.replay::replay",
        replace("not (dry_run or allow_none_known)", "False"),
        f"{_REPLAY}::test_nothing_is_written_without_a_known_row_unless_an_option_allows_it",
    ),
    one(
        "a row that repeats another of its request is known",
        "oncegate.verifier.replay::Replay.knows_some",
        without("Verdict.SAME"),
        f"{_REPLAY}::test_nothing_is_written_without_a_known_row_unless_an_option_allows_it",
    ),
    one(
        "a replay that counts a row of an earlier request as written again",
        "oncegate.verifier.replay::ReplayCounts.add",
        replace(
            "(kinds == Verdict.DUPLICATE) & (verdicts & Flag.OWN != 0) & repeated",
            "(kinds == Verdict.DUPLICATE) & (verdicts & Flag.OWN != 0)",
        ),
        f"{_REPLAY}::test_nothing_is_written_without_a_known_row_unless_an_option_allows_it",
    ),
    one(
        "a replay that counts what it sent twice as not written",
        "oncegate.verifier.replay::Replay.write",
        replace("self._gateway.repeats != repeats", "False"),
        f"{_REPLAY}::test_a_request_whose_reply_is_lost_is_sent_again_and_its_rows_count_as_written",
    ),
    one(
        "a replay into a topic that is not there",
        "oncegate.cli.replay::_with_schema",
        replace("gateway.ask_about(f\"/topics/{quote(order.topic, safe='')}\")['schema_ipc']", "None"),
        f"{_REPLAY}::test_an_error_is_reported_in_one_line_without_a_traceback",
    ),
)
