"""Lists the public names in tests/golden/public.txt, one per line, so that changes are visible in a review.

The list has the Python client's names with signatures, the options of Spark's format, the verbs of `oncegate` with
flags, and its settings. openapi.json lists the routes, gateway.proto the gRPC calls.
"""

import enum
import inspect
from collections.abc import Iterator
from typing import Any

import typer

import oncegate_spark
from oncegate.cli import app
from oncegate.settings import ProcessSettings, SemanticSettings
from oncegate_spark.spark.options.table import OPTIONS


def text() -> str:
    """Returns the text of the list."""
    parts = {
        "oncegate_spark": _client(),
        "options of Spark's format": sorted(_options()),
        "verbs of oncegate": sorted(_verbs(typer.main.get_command(app), "oncegate")),
        "settings": sorted({*SemanticSettings.model_fields, *ProcessSettings.model_fields}),
    }
    return "\n".join(f"# {title}\n" + "\n".join(lines) + "\n" for title, lines in parts.items())


def _client() -> list[str]:
    return [line for name in sorted(oncegate_spark.__all__) for line in _described(name, getattr(oncegate_spark, name))]


def _described(name: str, value_of_name: Any) -> Iterator[str]:
    if not inspect.isclass(value_of_name):
        yield f"{name}{_signature(value_of_name)}"
        return
    if issubclass(value_of_name, enum.Enum):
        yield f"{name}: {', '.join(member.name for member in value_of_name)}"
        return
    bases = ", ".join(base.__name__ for base in value_of_name.__bases__ if base is not object)
    yield f"{name}{_signature(value_of_name)}{bases and ' of '}{bases}"
    for member in sorted(member_name for member_name in dir(value_of_name) if not member_name.startswith("_")):
        value = inspect.getattr_static(value_of_name, member)
        inherited = next(base for base in value_of_name.__mro__ if member in vars(base)).__module__
        if inherited.startswith("oncegate_spark"):
            yield f"{name}.{member}{_signature(value)}"


def _signature(called: Any) -> str:
    """Returns parameter names and defaults of a callable; types are left out, since mypy checks them."""
    called = called.__func__ if isinstance(called, staticmethod | classmethod) else called
    if not callable(called):
        return ""
    try:
        parameters = inspect.signature(called).parameters.values()
    except ValueError:
        return ""
    return f"({', '.join(str(parameter.replace(annotation=inspect.Parameter.empty)) for parameter in parameters)})"


def _options() -> Iterator[str]:
    for option in OPTIONS:
        yield option.name


def _verbs(command: Any, name: str) -> Iterator[str]:
    if verbs := getattr(command, "commands", None):
        for verb, inner in verbs.items():
            yield from _verbs(inner, f"{name} {verb}")
        return
    flags = [
        max(parameter.opts, key=len) if parameter.param_type_name == "option" else parameter.name
        for parameter in command.params
    ]
    yield " ".join([name, *sorted(str(flag) for flag in flags)])
