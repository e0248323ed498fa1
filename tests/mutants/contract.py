"""More planted bugs: differences between the document and the gateway; see `planted`."""

from tests.mutants.edits import replace
from tests.mutants.mutant import Mutant, one

_PAGES = "tests/transports/http/test_pages.py"
_WORDS = "tests/transports/http/test_words_of_errors.py"
_INT64 = "tests/transports/http/test_int64.py"

CONTRACT: tuple[Mutant, ...] = (
    one(
        "the client lists the first page alone",
        "oncegate_spark.protocol.calls.topics::names",
        replace("document['next']", "None"),
        f"{_PAGES}::test_a_client_lists_the_topics_of_all_pages",
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
        "an error and a verdict have one name",
        "oncegate.core.errors::BatchConflict",
        replace("'BATCH_CONFLICT'", "'CONFLICT'"),
        f"{_WORDS}::test_a_verdict_and_an_error_never_have_one_name",
    ),
)
