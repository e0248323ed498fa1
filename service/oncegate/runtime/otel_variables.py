"""Reads the trace settings from OpenTelemetry's environment variables, without importing its libraries.

Their specification makes `otlp` the default exporter of a program that was given an SDK. A gateway is not given one on
purpose, so here one of the variables below must be set: without them nothing of OpenTelemetry is imported.
"""

from collections.abc import Mapping
from dataclasses import dataclass

EXPORTERS, PROTOCOLS = ("otlp", "console", "none"), ("http/protobuf", "grpc")
GRPC = "grpc"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


@dataclass(frozen=True)
class WantedTraces:
    """The destinations of traces: `exporters` (from EXPORTERS, without `none`) and `protocol` (from PROTOCOLS)."""

    exporters: tuple[str, ...]
    protocol: str


def wanted_traces(environ: Mapping[str, str]) -> WantedTraces | None:
    """Returns the destinations of traces; None if tracing is off. Raises ValueError for an unknown value.

    Sampling, headers, batches and names are read by the SDK itself, from the other variables of the specification.
    """
    # By the specification, an empty value counts as unset.
    variables = {name: value.strip() for name, value in environ.items() if name.startswith("OTEL_") and value.strip()}
    asks = "OTEL_TRACES_EXPORTER" in variables or any(name in variables for name in _ENDPOINTS)
    if not asks or variables.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    exporters = tuple(name.strip() for name in variables.get("OTEL_TRACES_EXPORTER", "otlp").split(","))
    for name in exporters:
        if name not in EXPORTERS:
            raise ValueError(f"OTEL_TRACES_EXPORTER: {name} is not known; there are {', '.join(EXPORTERS)}")
    protocol = next((variables[name] for name in _PROTOCOLS if name in variables), PROTOCOLS[0])
    if protocol not in PROTOCOLS:
        raise ValueError(f"OTEL_EXPORTER_OTLP_PROTOCOL: {protocol} is not known; there are {', '.join(PROTOCOLS)}")
    chosen = tuple(dict.fromkeys(name for name in exporters if name != "none"))
    return WantedTraces(chosen, protocol) if chosen else None
