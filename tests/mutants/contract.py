"""More planted bugs: the document says other than what the gateway does; see `planted`."""

from tests.mutants.mutant import Mutant, one

_PACKED = "tests/contract/test_packed_client.py"
_PAGES = "tests/transports/http/test_pages.py"
_WORDS = "tests/transports/http/test_words_of_errors.py"
_INT64 = "tests/transports/http/test_int64.py"
_OPENAPI = "service/oncegate/transports/http/openapi"

CONTRACT: tuple[Mutant, ...] = (
    one(
        "the document's verdict bytes are off by one",
        f"{_OPENAPI}/encodings.py",
        '            "byte": byte,\n',
        '            "byte": byte + 1,\n',
        f"{_PACKED}::test_ids_are_claimed_completed_and_then_a_duplicate",
    ),
    one(
        "the document writes claim ids from their other end",
        f"{_OPENAPI}/encodings.py",
        '            "byte_order": "big",\n',
        '            "byte_order": "little",\n',
        f"{_PACKED}::test_the_documents_rule_for_claim_ids_is_the_gateways",
    ),
    one(
        "the document adds fingerprints from their other end",
        f"{_OPENAPI}/encodings.py",
        '"fingerprint": {"bytes": 16, "byte_order": "little"',
        '"fingerprint": {"bytes": 16, "byte_order": "big"',
        f"{_PACKED}::test_the_fingerprints_of_chunks_add_up_to_what_a_commit_takes",
    ),
    one(
        "a page skips the first name behind the token",
        "service/oncegate/transports/pages.py",
        "    first = bisect_right(names, after) if after else 0\n",
        "    first = bisect_right(names, after) + 1 if after else 0\n",
        f"{_PAGES}::test_pages_hold_every_name_once",
    ),
    one(
        "the last page leads to an empty one",
        "service/oncegate/transports/pages.py",
        "first + limit < len(names)",
        "first + limit <= len(names)",
        f"{_PAGES}::test_pages_hold_every_name_once",
    ),
    one(
        "the client lists the first page alone",
        "spark_client/oncegate_spark/protocol/calls/topics.py",
        '        after = document["next"]\n',
        "        after = None\n",
        f"{_PAGES}::test_a_client_lists_the_topics_of_all_pages",
    ),
    one(
        "a page of one list goes on where another was cut",
        "service/oncegate/transports/pages.py",
        "    end = min(cut)\n",
        "    end = max(cut)\n",
        "tests/transports/test_pages.py::test_each_interval_is_on_one_page",
    ),
    one(
        "a number of 64 bits stays one where texts are asked for",
        "service/oncegate/transports/http/messages/verdicts.py",
        "    offset: Int64\n",
        "    offset: int\n",
        f"{_INT64}::test_every_number_of_64_bits_is_a_text_where_it_is_asked_for_so",
    ),
    one(
        "a parameter of Accept is passed over",
        "service/oncegate/transports/http/negotiation.py",
        'return "; ".join((media, *named)), float(quality)',
        "return media, float(quality)",
        f"{_INT64}::test_a_parameter_of_accept_that_is_not_known_is_refused",
    ),
    one(
        "a header of marks without one is passed over",
        "service/oncegate/transports/decode/identifiers.py",
        "    if not found:  # whoever sends it has lost its mark, and relies on it\n",
        "    if False:\n",
        "tests/transports/http/test_taking.py::test_a_header_of_marks_that_has_none_is_refused",
    ),
    one(
        "an error names an option of Spark",
        "service/oncegate/engine/usecases/batch_refusals.py",
        "a write_id (any text",
        "a writeId (any text",
        f"{_WORDS}::test_no_message_of_the_service_names_an_option_of_spark",
    ),
    one(
        "an error and a verdict have one name",
        "service/oncegate/core/errors.py",
        '"BATCH_CONFLICT", "Other input',
        '"CONFLICT", "Other input',
        f"{_WORDS}::test_a_verdict_and_an_error_never_have_one_name",
    ),
)
