"""Names on the pages exist: paths, modules, imported names, options, routes, codes."""

import ast
import importlib
import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

import oncegate_spark
from oncegate.engine.counters import COUNTERS
from oncegate.engine.metrics.families import METRICS
from oncegate_spark.spark.options import OPTIONS
from tests.docs.pages import PAGES, ROOT, Page, named

CLIENT = "spark_client/oncegate_spark"
FOLDERS = ("service", "spark_client", "tests", "docs", "scripts", "examples", "demo", "bench", "requirements")
_PATH = re.compile(rf"(?<![\w/.])(?:{'|'.join(FOLDERS)})/[\w./*-]*")
# Options that a page passes to a reader's own sink or to Spark's Kafka source.
OF_OTHERS = {"bootstrap", "payments", "subscribe", "includeHeaders"}
OPENAPI = ROOT / "service/oncegate/transports/http/openapi/openapi.json"


@cache
def sources() -> str:
    """Returns all source text in which names may occur."""
    files = [path for folder in FOLDERS if folder != "docs" for path in (ROOT / folder).rglob("*.py")]
    return "\n".join(path.read_text() for path in files if "docs" not in path.relative_to(ROOT).parts)


@cache
def words() -> set[str]:
    made = (*(metric.full_name for metric in METRICS), *(row.name for row in COUNTERS))
    return {*re.findall(r"\w+", sources()), *made}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_path_exists(page: Page) -> None:
    places = {place.rstrip("/.") for text in page.code() for place in _PATH.findall(text)}
    assert [place for place in sorted(places) if not list(ROOT.glob(place))] == []


def test_every_folder_with_a_rule_exists() -> None:
    rows = re.findall(r"^\| ((?:`[\w/.]+`(?:, )?)+) \|", Page(ROOT / "docs/changes/rooms.md").prose, re.MULTILINE)
    listed = {place for row in rows for place in re.findall(r"`([\w/.]+)`", row)}
    assert len(listed) > 20
    assert [place for place in sorted(listed) if place_of(place) is None] == []


# The paths of the pages about changes begin below one of these.
PACKAGES = tuple(ROOT / one for one in ("", "service/oncegate", "service/oncegate/transports/http", CLIENT))
CHANGES = [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs/changes").glob("*.md"))]
RECIPES = [path for path in CHANGES if path.name[:2].isdigit()]


def place_of(path: str) -> Path | None:
    """Returns the file of a path on a page, from the root or below a package, or None if there is none."""
    return next((package / path for package in PACKAGES if (package / path).exists()), None)


def paths_of(page: Path) -> list[str]:
    return re.findall(r"`(\w+(?:/\w+)+(?:\.\w+)?)`", Page(page).prose)


@pytest.mark.parametrize("page", CHANGES, ids=lambda path: path.name)
def test_every_path_of_the_architecture_and_the_recipes_exists(page: Path) -> None:
    assert [path for path in paths_of(page) if place_of(path) is None] == []


@pytest.mark.parametrize("page", RECIPES, ids=lambda path: path.name)
def test_a_recipe_has_its_number_steps_and_tests(page: Path) -> None:
    text = page.read_text()
    assert text.startswith(f"# {int(page.name[:2])}. ")
    assert len(re.findall(r"^\d\. ", text, re.MULTILINE)) >= 3
    assert [path for path in paths_of(page) if path.startswith("tests/")] or "make audit" in text
    assert f"({page.name})" in (ROOT / "docs/changes/index.md").read_text()


def test_the_recipes_name_the_files_of_every_kind_of_change() -> None:
    assert [path.name[:2] for path in RECIPES] == [f"{number:02}" for number in range(1, len(RECIPES) + 1)]
    assert sum(len(paths_of(path)) for path in CHANGES) > 150


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_name_in_backticks_is_in_the_source(page: Page) -> None:
    """Covers classes, functions and constants: single words that look like one of our names."""
    found = [text for text in page.code() if re.fullmatch(r"_?[A-Z]\w+(\.\w+)*|[a-z]+(_\w+)+(\(.*\))?", text)]
    unknown = [text for text in found if not set(re.sub(r"\(.*", "", text).split(".")) <= words() | KNOWN]
    assert unknown == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_name_is_in_the_file_that_is_named_beside_it(page: Page) -> None:
    """Covers `Limits.lease_of` (`service/…/limits.py`) and `Limits.lease_of` in `service/…/limits.py`."""
    for name, place in re.findall(r"`([\w.]+)`(?:[^`(]{0,20}\(|\s+in\s+)`([\w./]+\.py)`", page.prose):
        found = place_of(place)
        assert found is not None, place
        assert set(name.split(".")) <= set(re.findall(r"\w+", found.read_text())), (name, place)


# Names of other projects, and of files.
KNOWN = {"CONTRIBUTING", "SADD", "SMISMEMBER", "RWF_DSYNC", "O_DIRECT", "MADV_POPULATE_WRITE", "Content", "SET", "md"}
KNOWN |= {"monotonically_increasing_id", "NUMBA_CPU_NAME", "WAL", "PYTHONDONTWRITEBYTECODE", "Accept", "GET", "cp"}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_example_in_python_compiles(page: Page) -> None:
    for block in page.blocks("python"):
        ast.parse(block)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_everything_that_is_imported_or_taken_from_the_client_exists(page: Page) -> None:
    for block in page.blocks("python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("oncegate"):
                module = importlib.import_module(node.module or "")
                assert [alias.name for alias in node.names if not is_in(module, alias.name)] == []
    for name in re.findall(r"\boncegate_spark((?:\.\w+)+)", page.text):
        assert is_in_client(name[1:]), name


def is_in(module: ModuleType, name: str) -> bool:
    """Returns whether a module has the name, or is a package with a module of this name, imported or not."""
    is_package = hasattr(module, "__path__")
    return hasattr(module, name) or (is_package and find_spec(f"{module.__name__}.{name}") is not None)


def is_in_client(dotted: str) -> bool:
    """Returns whether `oncegate_spark.<dotted>` is an exported name, a module, or a name in a module."""
    if dotted in oncegate_spark.__all__ or dotted == "zip":  # the name under which the wheel is shipped
        return True
    module, _, name = f"oncegate_spark.{dotted}".rpartition(".")
    try:
        importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return module != "oncegate_spark" and hasattr(importlib.import_module(module), name)
    return True


def test_a_name_that_is_not_exported_would_be_found() -> None:
    assert is_in_client("Gateway")
    assert is_in_client("errors.PayloadConflict")
    assert not is_in_client("NoSuchName")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_spark_option_exists(page: Page) -> None:
    given = set(re.findall(r"\.option\(\"(\w+)\"", page.text)) - OF_OTHERS
    assert given <= {option.name for option in OPTIONS}


def test_every_call_of_the_http_guide_is_in_the_document() -> None:
    paths = json.loads(OPENAPI.read_text())["paths"]
    known = {f"{method.upper()} {shape(path)}" for path, methods in paths.items() for method in methods}
    assert calls(Page(ROOT / "docs/http-guide.md")) <= known


def calls(page: Page) -> set[str]:
    """Returns every call in backticks; a bare verb, `:renew`, extends the path before it."""
    found, last = set(), ""
    for text in page.code():
        if match := re.fullmatch(r"(GET|PUT|POST) (…?/\S+)", text):
            last = f"{match[1]} {shape(match[2].replace('…', '/v1/namespaces/{ns}'))}"
            found.add(last)
        elif re.fullmatch(r":[a-z]+", text) and last:
            found.add(f"{last.rpartition(':')[0]}{text}")
    assert len(found) > 20
    return found


def shape(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path.partition("?")[0])


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_code_in_capitals_is_one_of_ours(page: Page) -> None:
    codes = set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", page.prose))
    assert {code for code in codes if not code.startswith("ONCEGATE_")} <= words() | KNOWN
