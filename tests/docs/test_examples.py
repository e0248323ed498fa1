"""Examples on the pages work: run against a real gateway, they give the printed answers."""

import itertools
import json
import re
import shlex
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest

from oncegate.testing import LocalGateway
from oncegate_spark import Gateway
from tests.docs.pages import ROOT, Page

README, PYTHON, HTTP = (Page(ROOT / name) for name in ("README.md", "docs/python-guide.md", "docs/http-guide.md"))
SHOWN = "http://127.0.0.1:8080"


@pytest.fixture
def local() -> Iterator[LocalGateway]:
    with LocalGateway(start_ms=240_000) as gateway:  # the first one may compile kernels
        for namespace in ("mail", "default"):
            with Gateway(gateway.url, namespace=namespace) as client:
                client.create_namespace()
        yield gateway


def sent(local: LocalGateway, command: str) -> Any:
    """Returns the answer to a curl command."""
    words = shlex.split(command.replace("\\\n", " "))
    options = dict(itertools.pairwise(words))
    url = next(word for word in words if "/v1/" in word).replace("127.0.0.1:8080", local.url)
    given = [header for option, header in itertools.pairwise(words) if option == "-H"] or ["accept: application/json"]
    headers = dict(header.split(": ", 1) for header in given)
    body = options["-d"].encode() if "-d" in options else None
    method = options.get("-X", "GET" if body is None else "POST")
    request = Request(url, body, headers, method=method)
    with urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_the_quick_start_is_granted_and_then_a_duplicate(local: LocalGateway) -> None:
    blocks = README.blocks("")
    command = next(block for block in blocks if block.startswith("curl"))
    granted, duplicate = blocks[blocks.index(command) + 1].splitlines()
    assert sent(local, command) == json.loads(granted)
    assert sent(local, command) == json.loads(duplicate)
    read = next(block for block in blocks if block.startswith("curl") and "offset=0" in block)
    assert json.dumps(sent(local, read)).count("a-1") == 1


def test_the_answers_of_the_http_guide_are_the_gateways(local: LocalGateway) -> None:
    claim = ""
    for block in HTTP.blocks(""):
        command = re.match(r"curl (?:\\\n|.)+", block)
        if command is None:
            continue
        answer = sent(local, re.sub(r"claims/\w+:", f"claims/{claim}:", command[0]))
        claim = answer.get("claim", "")
        shown = block[command.end() :].strip()
        if shown:
            assert {**answer, "claim": ""} == {**json.loads(shown), "claim": ""}
        else:
            assert (answer["state"], answer["settled"]) == ("DONE", 2)


@pytest.mark.parametrize("number", range(len(PYTHON.blocks("python"))))
def test_the_examples_of_the_python_guide_run(number: int, local: LocalGateway) -> None:
    run(PYTHON.blocks("python")[number], local)


def test_trying_the_pages_in_order_gives_the_printed_results(local: LocalGateway) -> None:
    """The pages' ids and tokens do not collide: all examples run in one namespace."""
    test_the_quick_start_is_granted_and_then_a_duplicate(local)
    test_the_answers_of_the_http_guide_are_the_gateways(local)
    for block in PYTHON.blocks("python"):
        run(block, local)


def test_the_use_case_of_the_readme_runs_and_sends_nothing_twice(local: LocalGateway) -> None:
    block = next(block for block in README.blocks("python") if "order_numbers" in block)
    assert run(block, local) == ["a-1", "b-2"]
    assert run(block, local) == []


def run(block: str, local: LocalGateway) -> list[str]:
    """Runs an example with the names that it leaves to the reader; returns the rows that it sent."""
    sent: list[str] = []
    with Gateway(local.url) as gateway:
        ids = ["a-1", "b-2"]
        names = {"gateway": gateway, "ids": ids, "order_numbers": ids, "send": lambda rows: sent.extend(listed(rows))}
        exec(compile(block.replace(SHOWN, local.url), "example", "exec"), names)
    return sent


def listed(granted: Any) -> list[Any]:
    """Returns the granted rows as a list."""
    return list(granted.to_pylist() if hasattr(granted, "to_pylist") else granted)
