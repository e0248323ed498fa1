"""More planted bugs: the document says other than what the gateway does; see `planted`."""

from tests.mutants.edits import cell, replace, reword, shift
from tests.mutants.mutant import Mutant, one

_PACKED = "tests/contract/test_packed_client.py"
_PAGES = "tests/transports/http/test_pages.py"
_WORDS = "tests/transports/http/test_words_of_errors.py"
_INT64 = "tests/transports/http/test_int64.py"

CONTRACT: tuple[Mutant, ...] = (
    one(
        "the document's verdict bytes are off by one",
        "oncegate.transports.http.openapi.encodings::_verdicts",
        cell("'byte'", "byte + 1"),
        f"{_PACKED}::test_ids_are_claimed_completed_and_then_a_duplicate",
    ),
    one(
        "the document writes claim ids from their other end",
        "oncegate.transports.http.openapi.encodings::tables",
        replace("'big'", "'little'"),
        f"{_PACKED}::test_the_documents_rule_for_claim_ids_is_the_gateways",
    ),
    one(
        "the document adds fingerprints from their other end",
        "oncegate.transports.http.openapi.encodings::tables",
        cell("'fingerprint'", "{'bytes': 16, 'byte_order': 'big', 'add': 'modulo 2^128'}"),
        f"{_PACKED}::test_the_fingerprints_of_chunks_add_up_to_what_a_commit_takes",
    ),
    one(
        "a page skips the first name behind the token",
        "oncegate.transports.pages::page",
        replace("bisect_right(names, after)", "bisect_right(names, after) + 1"),
        f"{_PAGES}::test_pages_hold_every_name_once",
    ),
    one(
        "the last page leads to an empty one",
        "oncegate.transports.pages::page",
        shift("first + limit < len(names)"),
        f"{_PAGES}::test_pages_hold_every_name_once",
    ),
    one(
        "the client lists the first page alone",
        "oncegate_spark.protocol.calls.topics::names",
        replace("document['next']", "None"),
        f"{_PAGES}::test_a_client_lists_the_topics_of_all_pages",
    ),
    one(
        "a page of one list goes on where another was cut",
        "oncegate.transports.pages::page_of_intervals",
        replace("min(cut)", "max(cut)"),
        "tests/transports/test_pages.py::test_each_interval_is_on_one_page",
    ),
    one(
        "a number of 64 bits stays one where texts are asked for",
        "oncegate.transports.http.messages.verdicts::Place",
        replace("Int64", "int"),
        f"{_INT64}::test_every_number_of_64_bits_is_a_text_where_it_is_asked_for_so",
    ),
    one(
        "a parameter of Accept is passed over",
        "oncegate.transports.http.parameters::_wish",
        replace("'; '.join((media, *named))", "media"),
        f"{_INT64}::test_a_parameter_of_accept_that_is_not_known_is_refused",
    ),
    one(
        "a header of marks without one is passed over",
        "oncegate.transports.decode.identifiers::marks",
        replace("not found", "False"),
        "tests/transports/http/test_taking.py::test_a_header_of_marks_that_has_none_is_refused",
    ),
    one(
        "an error names an option of Spark",
        "oncegate.engine.usecases.batch_refusals::refusal",
        reword("write_id", "writeId"),
        f"{_WORDS}::test_no_message_of_the_service_names_an_option_of_spark",
    ),
    one(
        "an error and a verdict have one name",
        "oncegate.core.errors::BatchConflict",
        replace("'BATCH_CONFLICT'", "'CONFLICT'"),
        f"{_WORDS}::test_a_verdict_and_an_error_never_have_one_name",
    ),
)
