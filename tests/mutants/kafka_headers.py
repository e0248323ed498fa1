"""Planted bugs of the headers that name a record's writer, and of their readers."""

from tests.mutants.edits import delete, replace, replace_statement
from tests.mutants.mutant import Mutant, one

_TOLD = "tests/engine/commit/test_origins.py"
_MARKS = "tests/faults/kafka/test_row_marks.py"
_ON_A_BROKER = "tests/faults/kafka/test_record_headers.py"
_CHECKED = "tests/client/test_kafka_records.py"
_SPARK = "tests/spark/test_check_records.py"

KAFKA_HEADERS: tuple[Mutant, ...] = (
    one(
        "a repeat's rows are numbered from 0 again",
        "oncegate.engine.commit.origins::of_rows",
        replace("sum((span.rows for span in before))", "0"),
        f"{_TOLD}::test_rows_of_a_repeat_continue_after_those_of_its_call",
    ),
    one(
        "rows of a producer get the sequences of the whole request",
        "oncegate.engine.commit.origins::of_rows",
        replace("sequenced.sequences if rows is None else sequenced.sequences[rows]", "sequenced.sequences"),
        f"{_TOLD}::test_rows_by_sequence_have_the_producers_name_its_epoch_and_their_own_numbers",
    ),
    one(
        "a row has the digest of another one's payload",
        "oncegate.engine.commit.origins::of_rows",
        replace(
            ("request.digests if request.digests is None or rows is None else request.digests[rows]"), "request.digests"
        ),
        f"{_TOLD}::test_payloads_digests_are_those_of_the_rows_that_are_written",
    ),
    one(
        "a version that is too large for an epoch is cut",
        "oncegate.engine.commit.origins::of_batch",
        replace("epoch >= _EPOCHS", "not _NUMBER.fullmatch(name.version)"),
        f"{_TOLD}::test_a_version_is_the_epoch_where_it_is_a_number_and_else_a_part_of_the_name",
    ),
    one(
        "batches of two apps share one text",
        "oncegate.engine.commit.origins::of_batch",
        replace("json.dumps(named, ensure_ascii=False, separators=(',', ':'))", "','.join(named)"),
        f"{_TOLD}::test_no_two_batches_have_the_same_origin",
    ),
    one(
        "rows are checked without the headers that they will have",
        "oncegate.engine.usecases.batches::Batches.stage",
        replace("self._origin(request.name)", "None"),
        f"{_TOLD}::test_rows_are_checked_with_the_headers_that_they_will_have",
    ),
    one(
        "records name their writer without being asked to",
        "oncegate.engine.usecases.topics::Topics.tells_origins",
        replace(
            "self._elsewhere is not None and bool(self.journal.index.settings.in_force.record_headers)",
            "self._elsewhere is not None",
        ),
        f"{_TOLD}::test_without_the_setting_no_record_names_its_writer",
    ),
    one(
        "headers are begun in a namespace that holds records without",
        "oncegate.engine.policies.settings::Settings._check_record_headers",
        replace("self._journal.index.held()", "False"),
        f"{_TOLD}::test_the_setting_is_refused_where_rows_stay_and_where_anything_is_there_and_nothing_else_changes",
    ),
    one(
        "headers are asked for that no topic of the gateway has",
        "oncegate.engine.policies.settings::Settings._check_record_headers",
        replace("wanted and (not self._topics_at)", "False"),
        f"{_TOLD}::test_the_setting_is_refused_where_rows_stay_and_where_anything_is_there_and_nothing_else_changes",
    ),
    one(
        "another setting takes record_headers back",
        "oncegate.engine.policies.settings::Settings.configure",
        replace(
            "{name: int(value) for name, value in asdict(request).items() if value is not None}",
            ("{n: int(v or 0) for n, v in asdict(request).items() if v is not None or n == 'record_headers'}"),
        ),
        f"{_TOLD}::test_the_setting_is_kept_by_restarts_and_compactions_and_by_other_settings",
    ),
    one(
        "each piece of a batch begins at 0 again",
        "oncegate.ledgers.kafka.rows.stream::RowStream.batches",
        replace_statement("turn, rows = (turn + 1, rows + taken)", "turn += 1"),
        f"{_ON_A_BROKER}::test_headers_are_the_same_whether_an_append_is_found_written_or_is_sent_again",
    ),
    one(
        "rows of a later piece have the digests of the first",
        "oncegate.ledgers.kafka.rows.marks::marks_of",
        replace("origin.digests[at:at + rows]", "origin.digests[:rows]"),
        f"{_MARKS}::test_rows_are_numbered_on_from_piece_to_piece",
    ),
    one(
        "a row may bring a header of the gateway's",
        "oncegate.ledgers.kafka.rows.stream::check_rows",
        delete("check_names(...)"),
        f"{_ON_A_BROKER}::test_a_header_that_is_named_as_the_gateways_is_refused_before_any_effect",
    ),
    one(
        "a header is refused that no row has",
        "oncegate.ledgers.kafka.rows.marks::check_names",
        delete("is_somebodys[is_somebodys] = own.starts[rows[is_somebodys]] <= items[is_somebodys]"),
        f"{_MARKS}::test_headers_of_a_null_and_of_rows_that_were_cut_off_are_nobodys",
    ),
    one(
        "headers take no room where rows are checked",
        "oncegate.ledgers.kafka.rows.stream::check_rows",
        replace("marks_of(origin, 0, len(columns.times_ms))", "()"),
        f"{_ON_A_BROKER}::test_a_row_that_has_no_room_for_its_headers_is_refused_before_any_effect",
    ),
    one(
        "a reader takes each epoch of a source for a writer of its own",
        "oncegate_spark.kafka_records::_marked",
        replace("pa.scalar(None, pa.uint64())", "_numbers(epoch)"),
        f"{_CHECKED}::test_a_sources_sequences_go_on_from_epoch_to_epoch_and_begin_anywhere",
    ),
    one(
        "a reader does not report records missing below the lowest",
        "oncegate_spark.kafka_records::RecordCheck.findings",
        replace(
            ("pc.if_else(pa.array(map(_is_source, keys), pa.bool_()), lowest, pa.scalar(0, pa.uint64()))"), "lowest"
        ),
        f"{_CHECKED}::test_missing_records_are_named_by_their_first_and_last_until_they_arrive",
    ),
    one(
        "a reader forgets what it took in before",
        "oncegate_spark.kafka_records::_joined",
        replace(
            "pc.and_(every['is_point'], pc.fill_null(inside, False))",
            "pc.and_not(every['is_point'], pc.fill_null(inside, False))",
        ),
        f"{_CHECKED}::test_a_sequence_that_comes_again_is_a_duplicate_in_one_call_and_in_later_ones",
    ),
    one(
        "a reader keeps a run for each record",
        "oncegate_spark.kafka_records::_closed",
        replace("_begins(key)", "pc.is_valid(key)"),
        f"{_CHECKED}::test_memory_grows_with_gaps_and_not_with_records",
    ),
    one(
        "a reader believes the row's own header before the gateway's",
        "oncegate_spark.kafka_records::_last_of",
        replace("[*is_last.chunks, pa.array([True])]", "[pa.array([True]), *is_last.chunks]"),
        f"{_CHECKED}::test_of_two_headers_of_one_name_the_last_is_the_gateways",
    ),
    one(
        "Spark counts a duplicate as missing",
        "oncegate_spark.spark.check_records::check_records",
        replace("F.count('sequence')", "F.sum('copies')"),
        f"{_SPARK}::test_it_finds_what_the_check_without_spark_finds",
    ),
)
