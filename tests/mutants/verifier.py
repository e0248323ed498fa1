"""Planted bugs of the verifier: a wrong kind, a repair that bypasses the ledger, a run that loses its state."""

from tests.mutants.edits import cell, delete, replace, replace_statement, without
from tests.mutants.mutant import Mutant, one

_TEXT = "tests/verifier/test_text_inputs.py"
_COMPARE = "tests/verifier/test_compare.py"
_TOPICS = "tests/verifier/test_gateway_topics.py"
_SPARK, _SPARK_TESTS = "spark_client/oncegate_spark/spark/verify.py", "tests/spark/test_verify.py"
_REGISTERED = "tests/verifier/test_registered_ids.py"
_INTERRUPTED = "tests/verifier/test_interrupted.py"

VERIFIER: tuple[Mutant, ...] = (
    one(
        "ids that share the first word of their hash are taken for one",
        "oncegate.verifier.compare::compare",
        replace("(rows[1:, 0] != rows[:-1, 0]) | (rows[1:, 1] != rows[:-1, 1])", "rows[1:, 0] != rows[:-1, 0]"),
        _COMPARE,
    ),
    one(
        "an id known to the ledger and missing in the output counts as not written",
        "oncegate.verifier.compare::_kinds",
        replace("FindingKind.MISSING", "FindingKind.NOT_WRITTEN"),
        f"{_TOPICS}::test_each_planted_fault_is_named_by_its_id_and_place",
    ),
    one(
        "an id that is doubled is well",
        "oncegate.verifier.compare::_kinds",
        replace("np.where(outputs == 1, once, int(FindingKind.DOUBLED))", "once"),
        f"{_TOPICS}::test_each_planted_fault_is_named_by_its_id_and_place",
    ),
    one(
        "a repair goes round the ledger: rows are produced without their ids",
        "oncegate.verifier.sources.gateway::GatewayClient.produce",
        cell("'id_set'", "token"),
        f"{_TOPICS}::test_rows_that_the_ledger_knows_as_written_are_refused_and_not_doubled",
    ),
    one(
        "a resumed repair sends its rows under another call",
        "oncegate.verifier.repair::repair",
        replace("save(folder, state)", "save(folder, RunState(state.identity, state.key, '0' * 32))"),
        f"{_INTERRUPTED}::test_a_repair_that_was_interrupted_writes_each_row_once",
    ),
    one(
        "a run does not keep what it has read of the output",
        "oncegate.verifier.run::ComparisonRun.read_output",
        delete("if runs.is_full:\n    ..."),
        f"{_INTERRUPTED}::test_rows_that_were_read_are_not_read_again",
    ),
    one(
        "a run that has done nothing leaves its folder",
        "oncegate.verifier.state::opened",
        replace("not state.has_begun", "False"),
        f"{_INTERRUPTED}::test_a_run_that_is_interrupted_before_its_first_step_leaves_no_folder",
    ),
    one(
        "a column that is misspelt is found when the folder of the run is there",
        "oncegate.verifier.verify::verify",
        delete("source.check(...)"),
        f"{_TOPICS}::test_a_misspelt_argument_is_one_line_at_once_and_leaves_no_folder",
    ),
    one(
        "a backup that finds no room leaves what it copied",
        "oncegate.ledgers.log.admin.backup::backup",
        replace(
            (
                "on_error.callback(_take_back, target, [path for path in (target, "
                "*target.parents) if not path.exists()])"
            ),
            ("on_error.callback(list, [path for path in (target, *target.parents) if not path.exists()])"),
        ),
        "tests/faults/ledger/test_backups.py::test_a_full_disk_ends_a_backup_without_a_trace_and_it_can_be_tried_again",
    ),
    one(
        "a run resumes with the state of another comparison",
        "oncegate.verifier.state::_read",
        replace("state.identity != identity", "False"),
        f"{_INTERRUPTED}::test_a_state_of_another_question_is_refused_with_what_differs",
    ),
    one(
        "a row written past the ledger counts as ok",
        "oncegate.verifier.run::ComparisonRun._ask_again",
        replace("at[standings == Standing.KNOWN]", "at"),
        f"{_TOPICS}::test_rows_written_past_the_ledger_are_distinguished_from_ok_ones",
    ),
    one(
        "a schema registry's number before JSON is taken for no JSON",
        "oncegate.verifier.sources.kafka_ids::_members",
        replace("value[_FRAME_BYTES:] if value[:1] == _FRAMED else value", "value"),
        "tests/faults/kafka/test_verify_formats.py::test_the_id_is_found_beside_or_in_a_value_that_a_registry_knows",
    ),
    one(
        "a schema is read again with each record",
        "oncegate.verifier.sources.kafka_ids::finder",
        replace("lru_cache(SCHEMAS_MAX)", "lru_cache(0)"),
        f"{_REGISTERED}::test_what_reads_the_values_of_a_schema_is_made_once",
    ),
    one(
        "a field that the schema has not is taken for a value without an id",
        "oncegate.verifier.sources.kafka_ids::_ids",
        replace_statement(
            "raise BadRequest(f'{where}: {error.detail}') from error", "return None if where else [error]"
        ),
        f"{_REGISTERED}::test_a_field_that_is_not_there_or_no_id_is_named_with_the_record",
    ),
    one(
        "a Protobuf value is read as the first message of its file",
        "oncegate.verifier.sources.protobuf_ids::reader_of.read",
        replace("head.message_indexes or []", "[0]"),
        f"{_REGISTERED}::test_ids_are_found_in_the_message_type_named_by_a_protobuf_value",
    ),
    one(
        "a field of Protobuf that is not set has the id of its default",
        "oncegate.verifier.sources.protobuf_ids::_ids_of.ids",
        replace("field.has_presence and (not row.HasField(field.name))", "field is None"),
        f"{_REGISTERED}::test_ids_are_found_in_the_message_type_named_by_a_protobuf_value",
    ),
    one(
        "a registry that fails is taken for one that knows no such schema",
        "oncegate.verifier.sources.registry::Registry._refusal",
        replace("error.http_status_code >= _SERVER_ERROR", "error.http_status_code < 0"),
        f"{_REGISTERED}::test_a_registry_that_goes_away_later_keeps_what_was_read",
    ),
    one(
        "a registry's password goes over the network unencrypted",
        "oncegate.verifier.sources.registry::_settings",
        delete("check_private(...)"),
        f"{_REGISTERED}::test_a_registry_that_cannot_be_asked_is_one_error_without_its_secret",
    ),
    one(
        "a Spark comparison reads the output before it has asked the ledger",
        "oncegate_spark.spark.verify::verify",
        delete("looked_up.count()"),
        f"{_SPARK_TESTS}::test_rows_written_between_the_ledgers_answer_and_the_reading_are_asked_for_again",
    ),
    one(
        "a Spark comparison takes what was written meanwhile for unrecorded",
        "oncegate_spark.spark.verify::_compared",
        replace("F.when(F.col(STATE) == KNOWN, OK).otherwise", "F.lit"),
        f"{_SPARK_TESTS}::test_rows_written_between_the_ledgers_answer_and_the_reading_are_asked_for_again",
    ),
    one(
        "a Spark comparison takes a number and its text for two ids",
        "oncegate_spark.spark.verify::_text",
        replace("F.col(quoted)", "F.concat(F.lit(str(kind)), F.col(quoted).cast(TEXT))", nth=2),
        f"{_SPARK_TESTS}::test_an_output_that_spark_reads_elsewhere_may_call_its_ids_otherwise",
    ),
    one(
        "a Spark comparison asks for a decimal by Spark's text, which has its scale",
        "oncegate_spark.spark.verify::_text",
        replace("'decimal'", "'no decimal'"),
        f"{_SPARK_TESTS}::test_ids_of_each_type_are_asked_for_as_the_ledger_knows_them",
    ),
    one(
        "a Spark comparison asks for bytes as text",
        "oncegate_spark.spark.verify::kinds_of",
        replace(
            "BYTES if df.schema[name].dataType.typeName() == BYTES else TEXT",
            "TEXT if df.schema[name].dataType.typeName() == BYTES else TEXT",
        ),
        f"{_SPARK_TESTS}::test_ids_of_each_type_are_asked_for_as_the_ledger_knows_them",
    ),
    one(
        "a lookup reports a claimed id as free",
        "oncegate_spark.protocol.packed::_HELD",
        replace("_BUSY + _those('FREE', takeover=True)", "_those('FREE', takeover=True)"),
        "tests/client/sync/test_firsts.py::test_a_look_up_reports_written_and_held_ids_and_grants_nothing",
    ),
    one(
        "whole numbers of text lose their zeros",
        "oncegate.verifier.sources.text_values::_numbers",
        replace_statement("if not len(differs):\n    ...", "return made"),
        _TEXT,
    ),
    one(
        "text that is empty is null",
        "oncegate.verifier.sources.text_values::of_csv",
        delete("if pa.types.is_string(kind) or pa.types.is_large_string(kind):\n    ..."),
        _TEXT,
    ),
    one(
        "members that the topic does not have are left out",
        "oncegate.verifier.sources.text_values::typed_records",
        replace(
            "(strange := (record.keys() - set(schema.names)))",
            "False and (strange := (record.keys() - set(schema.names)))",
        ),
        _TEXT,
    ),
    one(
        "numbers are written as text where no topic has a type",
        "oncegate.verifier.sources.inputs::Input._rows",
        replace("columns is not None", "True"),
        _TEXT,
    ),
    one(
        "a line break in a value is none where a block ends",
        "oncegate.verifier.sources.inputs::_PARSING",
        replace("True", "False"),
        _TEXT,
    ),
    one(
        "a line is counted from 0",
        "oncegate.verifier.sources.inputs::Input._lines",
        without("1"),
        _TEXT,
    ),
    one(
        "text is verified without the types of the topic",
        "oncegate.verifier.verify::verify",
        delete("source = source.typed(gateway.schema(question.topic))"),
        f"{_TOPICS}::test_text_is_compared_and_repaired_by_the_types_of_the_topic",
    ),
    one(
        "text is replayed without the types of the topic",
        "oncegate.cli.replay::_with_schema",
        replace("[source_input.typed(schema) for source_input in order.given]", "order.given"),
        "tests/cli/test_replay.py::test_row_that_the_topic_has_no_place_for_ends_it_before_anything_is_written",
    ),
)
