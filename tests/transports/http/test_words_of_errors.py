"""Errors over HTTP use the words of HTTP callers: none is a Spark option, and none is ambiguous."""

import ast
import json
import re
from collections.abc import Iterator

import pytest

from oncegate.core.verdicts import Verdict
from oncegate.transports.outcomes import public_errors
from oncegate_spark.spark.options.advice import OPTION_OF, in_options
from oncegate_spark.spark.options.table import OPTIONS
from tests.support.tree import ROOT

SERVICE = ROOT / "service/oncegate"
# Verbs print for a person at a shell, and may name the job.
SAID_OVER_HTTP = [path for path in sorted(SERVICE.rglob("*.py")) if "cli" not in path.parts]
OPTION_WORDS = {name for name in (option.name for option in OPTIONS) if not name.islower()}
DOCUMENT = (SERVICE / "transports/http/openapi/openapi.json").read_text()


def texts(source: str) -> Iterator[str]:
    """Yields every text of a module except docstrings: errors are made of these."""
    tree = ast.parse(source)
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def foreign(text: str) -> set[str]:
    return (OPTION_WORDS | {"foreachBatch"}) & set(re.findall(r"\w+", text))


def test_no_message_of_the_service_names_an_option_of_spark() -> None:
    found = {
        str(path.relative_to(SERVICE)): names
        for path in SAID_OVER_HTTP
        if (names := {name for text in texts(path.read_text()) for name in foreign(text)})
    }
    assert found == {}
    assert {"idCol", "writeId", "txnAppId", "onReplayMismatch"} <= OPTION_WORDS
    assert foreign("give it the option writeId") == {"writeId"}


def test_a_verdict_and_an_error_never_have_one_name() -> None:
    assert {verdict.name for verdict in Verdict} & {kind.code for kind in public_errors()} == set()


@pytest.mark.parametrize("member", OPTION_OF)
def test_each_translated_name_of_the_spark_client_is_in_the_document_and_an_option(member: str) -> None:
    schemas = json.loads(DOCUMENT)["components"]["schemas"].values()
    assert any(member in schema["properties"] for schema in schemas)
    assert OPTION_OF[member] in {option.name for option in OPTIONS}


def test_errors_in_spark_use_the_words_of_options() -> None:
    said = "give a write_id, or a new `app`; an app is what id_col_2 is not, and id_col names the id"
    told = in_options(said)
    assert told == "give a writeId, or a new txnAppId; an app is what id_col_2 is not, and idCol names the id"
