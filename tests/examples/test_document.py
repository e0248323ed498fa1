"""Parts that the OpenAPI document lacked when the client in examples/go was written: they remain in the document."""

import json
from pathlib import Path
from typing import Any

import pytest

from oncegate.core.verdicts import VERDICTS
from oncegate.transports.http.openapi import document

DOCUMENT = json.loads((Path(__file__).parents[2] / "service/oncegate/transports/http/openapi/openapi.json").read_text())
SCHEMAS = DOCUMENT["components"]["schemas"]
# Enumerations and lists that their schema's own description explains, and replies meant for people.
PLAIN = {"verdict", "verdicts", "namespaces", "topics"}
READ_BY_PEOPLE = {"CapabilitiesReply", "WayMessage", "HealthReply", "VersionReply", "ErrorReply", "Limits"}


@pytest.mark.parametrize("name", sorted(SCHEMAS.keys() - READ_BY_PEOPLE))
def test_every_member_has_a_description(name: str) -> None:
    mute = [member for member, schema in SCHEMAS[name]["properties"].items() if not is_described(schema)]
    assert [member for member in mute if member not in PLAIN] == [], "describe it in openapi.yaml"


def is_described(schema: dict[str, Any]) -> bool:
    """Returns whether a schema has a description, or refers to a message."""
    return bool(schema.get("description") or schema.get("$ref")) or any(
        is_described(either) for either in schema.get("anyOf", [])
    )


def test_every_query_parameter_has_a_description() -> None:
    for operations in DOCUMENT["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", []):
                assert parameter["description"] != parameter["name"], operation["operationId"]


def test_every_verdict_has_an_instruction() -> None:
    for row in VERDICTS:
        assert row.meaning in SCHEMAS["VerdictMessage"]["description"]


@pytest.mark.parametrize(
    "promise",
    ["Send the same request again", "numbers the claims and produces of this attempt", "sends the newest one"],
)
def test_the_document_explains_how_to_repeat_to_count_and_to_return_a_ledger_position(promise: str) -> None:
    assert promise in " ".join(DOCUMENT["info"]["description"].split())


def test_every_refusal_that_asks_to_wait_documents_its_header() -> None:
    for operations in DOCUMENT["paths"].values():
        for operation in operations.values():
            for found in operation["responses"].values():
                codes = found.get("content", {}).get("application/problem+json", {}).get("examples", {})
                waits = any("retry_after_ms" in DOCUMENT["components"]["examples"][code]["value"] for code in codes)
                assert ("Retry-After" in found.get("headers", {})) == waits


def test_a_word_about_a_member_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        document.with_words({})
