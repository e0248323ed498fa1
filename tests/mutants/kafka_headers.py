"""Planted bugs of headers that say who wrote a record, and of what reads them."""

from tests.mutants.mutant import Mutant, one

_ENGINE = "service/oncegate/engine"
_ORIGINS = f"{_ENGINE}/commit/origins.py"
_PRODUCE = f"{_ENGINE}/usecases/produce.py"
_BATCHES = f"{_ENGINE}/usecases/batches.py"
_ROWS = "service/oncegate/ledgers/kafka/rows"
_CHECK = "spark_client/oncegate_spark/kafka_records.py"
_IN_SPARK = "spark_client/oncegate_spark/spark/check_records.py"
_TOLD = "tests/engine/commit/test_origins.py"
_MARKS = "tests/faults/kafka/test_row_marks.py"
_ON_A_BROKER = "tests/faults/kafka/test_record_headers.py"
_CHECKED = "tests/client/test_kafka_records.py"
_SPARK = "tests/spark/test_check_records.py"

KAFKA_HEADERS: tuple[Mutant, ...] = (
    one(
        "what a repeat writes begins at 0 again",
        _ORIGINS,
        "    first = sum(span.rows for span in before)\n",
        "    first = 0\n",
        f"{_TOLD}::test_what_a_repeat_writes_goes_on_behind_what_its_call_has_written",
    ),
    one(
        "rows of a producer are told with the sequences of the whole request",
        _ORIGINS,
        "sequenced.sequences if rows is None else sequenced.sequences[rows]",
        "sequenced.sequences",
        f"{_TOLD}::test_rows_by_sequence_have_the_producers_name_its_epoch_and_their_own_numbers",
    ),
    one(
        "a row has the digest of another one's payload",
        _ORIGINS,
        "request.digests if request.digests is None or rows is None else request.digests[rows]",
        "request.digests",
        f"{_TOLD}::test_payloads_digests_are_those_of_the_rows_that_are_written",
    ),
    one(
        "a version that is too large for an epoch is cut",
        _ORIGINS,
        "    if epoch >= _EPOCHS:\n",
        "    if not _NUMBER.fullmatch(name.version):\n",
        f"{_TOLD}::test_a_version_is_the_epoch_where_it_is_a_number_and_else_a_part_of_the_name",
    ),
    one(
        "batches of two apps are told by one text",
        _ORIGINS,
        '    text = json.dumps(named, ensure_ascii=False, separators=(",", ":"))\n',
        '    text = ",".join(named)\n',
        f"{_TOLD}::test_no_two_batches_are_told_alike",
    ),
    one(
        "rows are checked without the headers that they will have",
        _BATCHES,
        "        origin = self._origin(request.name)\n",
        "        origin = None\n",
        f"{_TOLD}::test_rows_are_checked_with_the_headers_that_they_will_have",
    ),
    one(
        "records say who wrote them where nobody has asked for it",
        f"{_ENGINE}/usecases/topics.py",
        "        return self._elsewhere is not None and bool(self._journal.index.settings.record_headers)\n",
        "        return self._elsewhere is not None\n",
        f"{_TOLD}::test_without_the_setting_no_record_says_who_wrote_it",
    ),
    one(
        "headers are begun in a namespace that holds records without",
        f"{_ENGINE}/policies/settings.py",
        "        if self._journal.index.held():\n",
        "        if False:\n",
        f"{_TOLD}::test_the_setting_is_refused_where_rows_stay_and_where_anything_is_there_and_nothing_else_changes",
    ),
    one(
        "headers are asked for that no topic of the gateway has",
        f"{_ENGINE}/policies/settings.py",
        "        if wanted and not self._topics_at:\n",
        "        if False:\n",
        f"{_TOLD}::test_the_setting_is_refused_where_rows_stay_and_where_anything_is_there_and_nothing_else_changes",
    ),
    one(
        "another setting takes record_headers back",
        f"{_ENGINE}/policies/settings.py",
        "{name: int(value) for name, value in asdict(request).items() if value is not None}",
        "{n: int(v or 0) for n, v in asdict(request).items() if v is not None or n == 'record_headers'}",
        f"{_TOLD}::test_the_setting_is_kept_by_restarts_and_compactions_and_by_other_settings",
    ),
    one(
        "each piece of a batch begins at 0 again",
        f"{_ROWS}/stream.py",
        "            turn, rows = turn + 1, rows + taken\n",
        "            turn += 1\n",
        f"{_ON_A_BROKER}::test_headers_are_the_same_whether_an_append_is_found_written_or_is_sent_again",
    ),
    one(
        "rows of a later piece have the digests of the first",
        f"{_ROWS}/marks.py",
        "origin.digests[at : at + rows]",
        "origin.digests[:rows]",
        f"{_MARKS}::test_rows_are_numbered_on_from_piece_to_piece",
    ),
    one(
        "a row may bring a header of the gateway's",
        f"{_ROWS}/stream.py",
        "        check_names(columns.row_headers)\n",
        "        pass\n",
        f"{_ON_A_BROKER}::test_a_header_that_is_named_as_the_gateways_is_refused_before_any_effect",
    ),
    one(
        "a header is refused that no row has",
        f"{_ROWS}/marks.py",
        "    is_somebodys[is_somebodys] = own.starts[rows[is_somebodys]] <= items[is_somebodys]\n",
        "",
        f"{_MARKS}::test_headers_of_a_null_and_of_rows_that_were_cut_off_are_nobodys",
    ),
    one(
        "headers take no room where rows are checked",
        f"{_ROWS}/stream.py",
        "        check(records_of(columns, slice(None), marks_of(origin, 0, len(columns.times_ms))))\n",
        "        check(records_of(columns, slice(None), ()))\n",
        f"{_ON_A_BROKER}::test_a_row_that_has_no_room_for_its_headers_is_refused_before_any_effect",
    ),
    one(
        "a reader takes each epoch of a source for a writer of its own",
        _CHECK,
        "pc.starts_with(producer, SOURCE), pa.scalar(None, pa.uint64())",
        "pc.starts_with(producer, SOURCE), _numbers(epoch)",
        f"{_CHECKED}::test_a_sources_sequences_go_on_from_epoch_to_epoch_and_begin_anywhere",
    ),
    one(
        "a reader does not miss what lies below the lowest",
        _CHECK,
        "        begins = pc.if_else(pa.array(map(_is_source, keys), pa.bool_()), lowest, pa.scalar(0, pa.uint64()))\n",
        "        begins = lowest\n",
        f"{_CHECKED}::test_what_is_missing_is_named_by_its_first_and_last_until_it_comes",
    ),
    one(
        "a reader forgets what it took in before",
        _CHECK,
        "    is_known = pc.and_(every",
        "    is_known = pc.and_not(every",
        f"{_CHECKED}::test_a_sequence_that_comes_again_is_a_duplicate_in_one_call_and_in_later_ones",
    ),
    one(
        "a reader keeps a run for each record",
        _CHECK,
        "    begins = pc.or_(_begins(key), pa.concat_arrays([pa.array([True]), pc.invert(touches)]))\n",
        "    begins = pc.or_(pc.is_valid(key), pa.concat_arrays([pa.array([True]), pc.invert(touches)]))\n",
        f"{_CHECKED}::test_memory_grows_with_gaps_and_not_with_records",
    ),
    one(
        "a reader believes the row's own header before the gateway's",
        _CHECK,
        "    return found.filter(pa.concat_arrays([*is_last.chunks, pa.array([True])]))\n",
        "    return found.filter(pa.concat_arrays([pa.array([True]), *is_last.chunks]))\n",
        f"{_CHECKED}::test_of_two_headers_of_one_name_the_last_is_the_gateways",
    ),
    one(
        "Spark counts a duplicate as missing",
        _IN_SPARK,
        '        F.count("sequence").alias("different"),\n',
        '        F.sum("copies").alias("different"),\n',
        f"{_SPARK}::test_it_finds_what_the_check_without_spark_finds",
    ),
)
