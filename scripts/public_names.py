"""Lists what is public, one line a name, so that a change of it is seen: tests/golden/public.txt.

The Python client's names with their signatures, the options of Spark's format, the verbs of `oncegate` with flags,
and its settings. The routes are in openapi.json, the calls of gRPC in gateway.proto.
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
    """Makes the text of the list."""
    parts = {
        "oncegate_spark": _client(),
        "options of Spark's format": sorted(_options()),
        "verbs of oncegate": sorted(_verbs(typer.main.get_command(app), "oncegate")),
        "settings": sorted({*SemanticSettings.model_fields, *ProcessSettings.model_fields}),
    }
    return "\n".join(f"# {title}\n" + "\n".join(lines) + "\n" for title, lines in parts.items())


def _client() -> list[str]:
    return [line for name in sorted(oncegate_spark.__all__) for line in _described(name, getattr(oncegate_spark, name))]


def _described(name: str, found: Any) -> Iterator[str]:
    if not inspect.isclass(found):
        yield f"{name}{_signature(found)}"
        return
    if issubclass(found, enum.Enum):
        yield f"{name}: {', '.join(member.name for member in found)}"
        return
    bases = ", ".join(base.__name__ for base in found.__bases__ if base is not object)
    yield f"{name}{_signature(found)}{bases and ' of '}{bases}"
    for member in sorted(one for one in dir(found) if not one.startswith("_")):
        value = inspect.getattr_static(found, member)
        inherited = next(base for base in found.__mro__ if member in vars(base)).__module__
        if inherited.startswith("oncegate_spark"):
            yield f"{name}.{member}{_signature(value)}"


def _signature(found: Any) -> str:
    """Names and defaults of what is called; types are held by mypy."""
    found = found.__func__ if isinstance(found, staticmethod | classmethod) else found
    if not callable(found):
        return ""
    try:
        parameters = inspect.signature(found).parameters.values()
    except ValueError:
        return ""
    return f"({', '.join(str(one.replace(annotation=inspect.Parameter.empty)) for one in parameters)})"


def _options() -> Iterator[str]:
    for option in OPTIONS:
        yield option.name


def _verbs(command: Any, name: str) -> Iterator[str]:
    if verbs := getattr(command, "commands", None):
        for verb, inner in verbs.items():
            yield from _verbs(inner, f"{name} {verb}")
        return
    flags = [max(one.opts, key=len) if one.param_type_name == "option" else one.name for one in command.params]
    yield " ".join([name, *sorted(str(flag) for flag in flags)])
