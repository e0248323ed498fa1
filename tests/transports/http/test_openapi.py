"""The document is generated from the code, its examples are valid, and nothing is validated before the batch path."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from oncegate.core.verdicts import VERDICTS
from oncegate.transports.http import messages
from oncegate.transports.http.openapi import document
from scripts import generate
from tests.support.http_app import open_http

ROOT = Path(__file__).parents[3]
COMMITTED = json.loads((ROOT / "service/oncegate/transports/http/openapi/openapi.json").read_text())
OPERATIONS = [
    (method, path, operation) for path, item in COMMITTED["paths"].items() for method, operation in item.items()
]


def named(case: Any) -> str:
    return str(case[2]["operationId"])


@pytest.mark.parametrize("name", generate.GENERATED)
def test_a_committed_file_that_is_made_from_code_is_fresh(name: str) -> None:
    assert name not in generate.stale(), "run: make generate"


def test_the_document_is_openapi_3_1_and_every_reference_in_it_leads_somewhere() -> None:
    assert COMMITTED["openapi"] == "3.1.0"
    for reference in references(COMMITTED):
        found: Any = COMMITTED
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [found for item in value.values() for found in references(item)]
    return [found for item in value for found in references(item)] if isinstance(value, list) else []


@pytest.mark.parametrize("case", OPERATIONS, ids=named)
def test_every_operation_has_a_name_words_tags_and_its_path_parameters(case: Any) -> None:
    _, path, operation = case
    assert operation["summary"]
    assert operation["description"]
    assert operation["tags"]
    wanted = {part[1:-1].split("}")[0] for part in path.replace(":", "/").split("/") if part.startswith("{")}
    assert {item["name"] for item in operation.get("parameters", []) if item["in"] == "path"} == wanted


def test_operation_names_are_unique() -> None:
    names = [named(case) for case in OPERATIONS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", OPERATIONS, ids=named)
def test_every_json_body_and_answer_has_an_example_that_is_such_a_message(case: Any) -> None:
    operation = case[2]
    bodies = [operation.get("requestBody", {}), *(r for s, r in operation["responses"].items() if s < "300")]
    for content in (body.get("content", {}).get("application/json") for body in bodies):
        if content is not None:
            name = content["schema"]["$ref"].rpartition("/")[2]
            kind = getattr(messages, name, None)
            assert content["example"], name
            if kind is not None:
                msgspec.convert(content["example"], kind)


@pytest.mark.parametrize("case", OPERATIONS, ids=named)
def test_every_refusal_is_a_problem_with_an_example_for_each_code(case: Any) -> None:
    refusals = {status: found for status, found in case[2]["responses"].items() if status >= "400"}
    assert "500" in refusals
    for status, found in refusals.items():
        assert list(found["content"]) == ["application/problem+json"]
        for code in found["content"]["application/problem+json"]["examples"]:
            shown = COMMITTED["components"]["examples"][code]["value"]
            assert (str(shown["status"]), shown["code"]) == (status, code)
            msgspec.convert(shown, messages.Problem)


@pytest.mark.parametrize("case", [case for case in OPERATIONS if "{namespace}" in case[1]], ids=named)
def test_every_call_of_a_namespace_names_the_refusals_of_one_that_does_not_serve(case: Any) -> None:
    responses = case[2]["responses"]
    for status, codes in (
        ("503", {"RECOVERING", "LEDGER_DOWN", "LEDGER_FENCED"}),
        ("409", {"LEDGER_DAMAGED", "LEDGER_BUSY", "LEDGER_BEHIND", "KEY_MISMATCH"}),
    ):
        assert codes <= responses[status]["content"]["application/problem+json"]["examples"].keys()


def test_the_text_about_a_message_is_one_line_whichever_python_wrote_the_document() -> None:
    said = {name: schema.get("description", "") for name, schema in COMMITTED["components"]["schemas"].items()}
    assert "\n* GRANTED" in said.pop("VerdictMessage"), "a list of its own"
    assert any(said.values())
    assert not {name: one for name, one in said.items() if one != " ".join(one.split())}


@pytest.mark.parametrize("case", OPERATIONS, ids=named)
def test_every_example_is_valid_for_the_schema_that_it_illustrates(case: Any) -> None:
    operation = case[2]
    bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
    shown = [*operation["parameters"], *(content for body in bodies for content in body.get("content", {}).values())]
    registry = Registry().with_resource("document:", Resource(contents=COMMITTED, specification=DRAFT202012))
    for part in shown:
        if "example" in part:
            Draft202012Validator(within_document(part["schema"]), registry=registry).validate(part["example"])


def within_document(schema: Any) -> Any:
    if isinstance(schema, list):
        return [within_document(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: f"document:{item}" if key == "$ref" else within_document(item) for key, item in schema.items()}


def test_every_tag_is_described_and_used() -> None:
    used = {tag for _, _, operation in OPERATIONS for tag in operation["tags"]}
    assert used == {tag["name"] for tag in COMMITTED["tags"] if tag["description"]}


def test_every_component_is_used() -> None:
    used = set(references(COMMITTED))
    for kind in ("schemas", "examples"):
        assert {name for name in COMMITTED["components"][kind] if f"#/components/{kind}/{name}" not in used} == set()


@pytest.mark.parametrize("value", ["<<no_such_text>>", {"a": ["of <<no_such_text>>."]}])
def test_a_placeholder_that_the_code_does_not_know_is_an_error(value: Any) -> None:
    with pytest.raises(KeyError, match="no_such_text"):
        document.filled(value, {})


def test_the_frameworks_own_error_schema_is_nowhere() -> None:
    assert "HTTPValidationError" not in json.dumps(COMMITTED)


def test_the_verdicts_of_the_document_are_those_of_the_table() -> None:
    schema = COMMITTED["components"]["schemas"]["VerdictMessage"]
    assert set(schema["properties"]["verdict"]["enum"]) == {row.verdict.name for row in VERDICTS}
    assert {row.number for row in VERDICTS if row.number} <= schema["properties"].keys()


async def test_the_gateway_serves_the_committed_document() -> None:
    async with open_http() as http:
        assert (await http.get("/openapi.json")).json == COMMITTED


def test_every_schema_of_the_batch_routes_is_made_from_a_message_type() -> None:
    schemas = document.schemas()
    used = COMMITTED["components"]["schemas"]
    assert used == {name: schemas[name] for name in used}
    assert {name for name in schemas.keys() - used.keys() if not name.endswith(("Query", "Deletion"))} == set()
