"""Planted bugs of the verifier: a kind that is mistaken, a repair that goes round the ledger, a run that forgets."""

from tests.mutants.mutant import Mutant, one

_ROOM = "service/oncegate/verifier"
_TEXT = "tests/verifier/test_text_inputs.py"
_COMPARE = "tests/verifier/test_compare.py"
_TOPICS = "tests/verifier/test_gateway_topics.py"
_SPARK_IDS = "spark_client/oncegate_spark/spark/verify/id_text.py"
_SPARK, _SPARK_TESTS = "spark_client/oncegate_spark/spark/verify/compare.py", "tests/spark/test_verify.py"
_REGISTERED = "tests/verifier/test_registered_ids.py"
_INTERRUPTED = "tests/verifier/test_interrupted.py"

VERIFIER: tuple[Mutant, ...] = (
    one(
        "ids that share the first word of their hash are taken for one",
        f"{_ROOM}/compare.py",
        "    new[1:] = (rows[1:, 0] != rows[:-1, 0]) | (rows[1:, 1] != rows[:-1, 1])\n",
        "    new[1:] = rows[1:, 0] != rows[:-1, 0]\n",
        _COMPARE,
    ),
    one(
        "what the ledger knows and the output lacks is taken for not written",
        f"{_ROOM}/compare.py",
        "[Kind.NOT_WRITTEN, Kind.HELD, Kind.MISSING]",
        "[Kind.NOT_WRITTEN, Kind.HELD, Kind.NOT_WRITTEN]",
        f"{_TOPICS}::test_each_planted_fault_is_named_by_its_id_and_place",
    ),
    one(
        "an id that is doubled is well",
        f"{_ROOM}/compare.py",
        "np.where(outputs == 1, once, int(Kind.DOUBLED))",
        "once",
        f"{_TOPICS}::test_each_planted_fault_is_named_by_its_id_and_place",
    ),
    one(
        "a repair goes round the ledger: rows are produced without their ids",
        f"{_ROOM}/sources/gateway.py",
        '        named = {"id_col": ",".join(columns), "id_set": id_set}\n',
        '        named = {"id_col": ",".join(columns), "id_set": token}\n',
        f"{_TOPICS}::test_what_the_ledger_knows_as_written_is_refused_and_not_doubled",
    ),
    one(
        "a repair that goes on sends its rows under another call",
        f"{_ROOM}/repair.py",
        "        save(folder, state)\n",
        "        save(folder, State(state.identity, state.key, '0' * 32))\n",
        f"{_INTERRUPTED}::test_a_repair_that_was_interrupted_writes_each_row_once",
    ),
    one(
        "a run does not keep what it has read of the output",
        f"{_ROOM}/run.py",
        "                if runs.is_full:\n                    self._keep_output(runs)\n",
        "                pass\n",
        f"{_INTERRUPTED}::test_what_was_read_is_not_read_again",
    ),
    one(
        "a run that has done nothing leaves its folder",
        f"{_ROOM}/state.py",
        "            if not state.has_begun:\n",
        "            if False:\n",
        f"{_INTERRUPTED}::test_a_run_that_is_interrupted_before_its_first_step_leaves_no_folder",
    ),
    one(
        "a column that is misspelt is found when the folder of the run is there",
        f"{_ROOM}/verify.py",
        '    given.check(question.columns, "--id-col")\n',
        "",
        f"{_TOPICS}::test_what_is_misspelt_is_one_line_at_once_and_leaves_no_folder",
    ),
    one(
        "a backup that finds no room leaves what it copied",
        "service/oncegate/ledgers/log/admin/backup.py",
        "        on_error.callback(_take_back, target, [",
        "        on_error.callback(list, [",
        "tests/faults/ledger/test_backups.py::test_a_full_disk_ends_a_backup_without_a_trace_and_it_can_be_tried_again",
    ),
    one(
        "a run goes on with the state of another question",
        f"{_ROOM}/state.py",
        "    if state.identity != identity:\n",
        "    if False:\n",
        f"{_INTERRUPTED}::test_a_state_of_another_question_is_refused_with_what_differs",
    ),
    one(
        "what was written past the ledger is called well",
        f"{_ROOM}/run.py",
        "findings.change(row + at[told == Told.KNOWN], Kind.OK)",
        "findings.change(row + at, Kind.OK)",
        f"{_TOPICS}::test_what_was_written_past_the_ledger_is_told_from_what_is_ok",
    ),
    one(
        "a schema registry's number before JSON is taken for no JSON",
        f"{_ROOM}/sources/kafka_ids.py",
        "decoder.decode(value[_FRAME_BYTES:] if value[:1] == _FRAMED else value)",
        "decoder.decode(value)",
        "tests/faults/kafka/test_verify_formats.py::test_the_id_is_found_beside_or_in_a_value_that_a_registry_knows",
    ),
    one(
        "a schema is read anew with each record",
        f"{_ROOM}/sources/framed_ids.py",
        "    reader = lru_cache(SCHEMAS_MAX)(reader)\n",
        "    reader = lru_cache(0)(reader)\n",
        f"{_REGISTERED}::test_what_reads_the_values_of_a_schema_is_made_once",
    ),
    one(
        "a field that the schema has not is taken for a value without an id",
        f"{_ROOM}/sources/framed_ids.py",
        '        raise BadRequest(f"{place}: {error.detail}") from error\n',
        "        return None if place else [error]\n",
        f"{_REGISTERED}::test_a_field_that_is_not_there_or_no_id_is_named_with_the_record",
    ),
    one(
        "a Protobuf value is read as the first message of its file",
        f"{_ROOM}/sources/protobuf_ids.py",
        "name = _name_of(file, head.message_indexes or [])",
        "name = _name_of(file, [0])",
        f"{_REGISTERED}::test_ids_are_found_in_the_message_that_a_protobuf_value_says_it_is",
    ),
    one(
        "a field of Protobuf that is not set has the id of its default",
        f"{_ROOM}/sources/protobuf_ids.py",
        "None if field.has_presence and not row.HasField(field.name) else",
        "None if field is None else",
        f"{_REGISTERED}::test_ids_are_found_in_the_message_that_a_protobuf_value_says_it_is",
    ),
    one(
        "a registry that fails is taken for one that knows no such schema",
        f"{_ROOM}/sources/registry.py",
        "        if error.http_status_code >= _SERVER_ERROR:\n",
        "        if error.http_status_code < 0:\n",
        f"{_REGISTERED}::test_a_registry_that_goes_away_later_keeps_what_was_read",
    ),
    one(
        "a registry's password goes over the network unencrypted",
        f"{_ROOM}/sources/registry.py",
        "    check_private(parts, REGISTRY_AUTH)\n",
        "",
        f"{_REGISTERED}::test_a_registry_that_cannot_be_asked_is_one_error_without_its_secret",
    ),
    one(
        "a Spark comparison reads the output before it has asked the ledger",
        _SPARK,
        "        looked_up.count()  # all of it, before anything of the output is read\n",
        "",
        f"{_SPARK_TESTS}::test_what_is_written_between_the_ledgers_answer_and_the_reading_is_asked_for_again",
    ),
    one(
        "a Spark comparison takes what was written meanwhile for unrecorded",
        _SPARK,
        "F.when(F.col(STATE) == KNOWN, report.OK).otherwise(report.UNRECORDED)",
        "F.lit(report.UNRECORDED)",
        f"{_SPARK_TESTS}::test_what_is_written_between_the_ledgers_answer_and_the_reading_is_asked_for_again",
    ),
    one(
        "a Spark comparison takes a number and its text for two ids",
        _SPARK_IDS,
        "    return F.col(quoted)\n",
        "    return F.concat(F.lit(str(kind)), F.col(quoted).cast(TEXT))\n",
        f"{_SPARK_TESTS}::test_an_output_that_spark_reads_elsewhere_may_call_its_ids_otherwise",
    ),
    one(
        "a Spark comparison asks for a decimal by Spark's text, which has its scale",
        _SPARK_IDS,
        '        case "decimal":\n',
        '        case "no decimal":\n',
        f"{_SPARK_TESTS}::test_ids_of_each_type_are_asked_for_as_the_ledger_knows_them",
    ),
    one(
        "a Spark comparison asks for bytes as text",
        _SPARK_IDS,
        "BYTES if df.schema[name]",
        "TEXT if df.schema[name]",
        f"{_SPARK_TESTS}::test_ids_of_each_type_are_asked_for_as_the_ledger_knows_them",
    ),
    one(
        "a look-up tells what a claim holds as free",
        "spark_client/oncegate_spark/protocol/packed/verdicts.py",
        '_HELD = _bytes_of(_BUSY + _those("FREE", takeover=True))',
        '_HELD = _bytes_of(_those("FREE", takeover=True))',
        "tests/client/sync/test_firsts.py::test_a_look_up_tells_what_is_written_and_what_is_held_and_grants_nothing",
    ),
    one(
        "whole numbers of text lose their zeros",
        f"{_ROOM}/sources/text_values.py",
        "        if not len(differs):\n            return made\n",
        "        return made\n",
        _TEXT,
    ),
    one(
        "text that is empty is null",
        f"{_ROOM}/sources/text_values.py",
        "    if pa.types.is_string(kind) or pa.types.is_large_string(kind):\n        return column.cast(kind)\n",
        "",
        _TEXT,
    ),
    one(
        "members that the topic does not have are left out",
        f"{_ROOM}/sources/text_values.py",
        "        if strange := record.keys() - set(schema.names):\n",
        "        if False and (strange := record.keys() - set(schema.names)):\n",
        _TEXT,
    ),
    one(
        "numbers are written as text where no topic has a type",
        f"{_ROOM}/sources/inputs.py",
        "numbers=columns is not None)",
        "numbers=True)",
        _TEXT,
    ),
    one(
        "a line break in a value is none where a block ends",
        f"{_ROOM}/sources/inputs.py",
        "newlines_in_values=True",
        "newlines_in_values=False",
        _TEXT,
    ),
    one(
        "a line is counted from 0",
        f"{_ROOM}/sources/inputs.py",
        "enumerate(file, 1) if line.strip()",
        "enumerate(file) if line.strip()",
        _TEXT,
    ),
    one(
        "text is verified without the types of the topic",
        f"{_ROOM}/verify.py",
        "        given = given.typed(gateway.schema(question.topic))\n",
        "",
        f"{_TOPICS}::test_text_is_compared_and_repaired_by_the_types_of_the_topic",
    ),
    one(
        "text is replayed without the types of the topic",
        "service/oncegate/cli/operating/replay.py",
        "given=[one.typed(schema) for one in order.given]",
        "given=order.given",
        "tests/cli/test_replay.py::test_row_that_the_topic_has_no_place_for_ends_it_before_anything_is_written",
    ),
)
