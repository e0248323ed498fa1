"""Draws the reference tables of the docs: verbs, Spark options, calls, counters, metrics and settings."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from oncegate.cli import app
from oncegate.engine.counters import COUNTERS
from oncegate.engine.metrics.families import METRICS, Metric
from oncegate.settings import ProcessSettings, SemanticSettings
from oncegate_spark.spark.options import habit_rows, option_rows, promise_rows

OPENAPI = Path(__file__).parent.parent / "service/oncegate/transports/http/openapi/openapi.json"
LIMITS_SOURCE = Path(__file__).parent.parent / "service/oncegate/engine/limits.py"
_FIELD = re.compile(r"^    (\w+): ")
_UNITS = {1 << 30: "GiB", 1 << 20: "MiB", 1 << 10: "KiB"}


def table(head: list[str], rows: list[list[str]]) -> str:
    """Returns a Markdown table without padding."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"|{'|'.join(line)}|" for line in lines)


def verbs() -> str:
    """Draws every verb of the command line with the first paragraph of its help."""
    rows = [[f"`{' '.join(name)}`", text] for name, text in _verbs(typer.main.get_command(app), "oncegate")]
    return table(["verb", "what it does"], rows)


def _verbs(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, verb in command.commands.items():
        if hasattr(verb, "commands"):
            yield from _verbs(verb, *path, name)
        else:
            yield (*path, name), " ".join((verb.help or "").partition("\n\n")[0].split())


def spark_options() -> str:
    """Draws every option of the Spark sink and source: its effect, its values, and where it applies."""
    head = ["option", "what it does", "values", "default", "`write=`", "calls"]
    rows = [
        [f"`{name}`", meaning, values, default, modes, calls]
        for name, values, default, modes, calls, meaning in option_rows()
    ]
    return table(head, rows)


def spark_habits() -> str:
    """Draws the options of other connectors and their replacements here."""
    rows = [[f"`{name}`", connector, here] for name, connector, here in habit_rows()]
    return table(["option", "of", "here"], rows)


def spark_promises() -> str:
    """Draws the guarantees of each write mode, and their limits."""
    rows = [[f"`{mode}`", f"`{guarantee}`", keeps, unless] for mode, guarantee, keeps, unless in promise_rows()]
    return table(["`write=`", "`guarantee=`", "what is kept", "what is not"], rows)


def calls() -> str:
    """Draws every call of the OpenAPI document, with the first sentence of its description."""
    paths = json.loads(OPENAPI.read_text())["paths"]
    rows = [
        [f"`{method.upper()} {path.replace('/v1/namespaces/{namespace}', '…')}`", _first_sentence(call["description"])]
        for path, methods in paths.items()
        for method, call in methods.items()
    ]
    return table(["call", "what it does"], rows)


def _first_sentence(text: str) -> str:
    sentence = re.split(r"(?<=[.;])\s", " ".join(text.split()), maxsplit=1)[0]
    return sentence.rstrip(".;")


def counters() -> str:
    """Draws every counter of a namespace with its unit and meaning."""
    return table(["counter", "unit", "what it counts"], [[f"`{row.name}`", row.unit, row.meaning] for row in COUNTERS])


def metrics() -> str:
    """Draws every metric of /metrics: its kind, its labels with their values, its unit and its meaning."""
    head = ["metric", "kind", "labels", "unit", "what it tells"]
    rows = [
        [f"`{metric.full_name}`", metric.kind.value, _labels(metric), metric.unit, metric.meaning] for metric in METRICS
    ]
    return table(head, rows)


def _labels(metric: Metric) -> str:
    *names, last = metric.all_labels or ("",)
    values = f": {', '.join(f'`{value}`' for value in metric.known)}" if metric.known else ""
    return ", ".join(f"`{name}`" for name in (*names, last) if name) + values


def by_label(label: str) -> str:
    """Draws the counters that a metric's label distinguishes: the label's value, the API's counter, its meaning."""
    rows = [
        [f"`{row.label[1]}`", f"`{row.name}`", row.meaning]
        for row in COUNTERS
        if row.label is not None and row.label[0] == label
    ]
    return table([label, "counter of the API", "what it counts"], rows)


def settings() -> str:
    """Draws every setting with its default; limits also have their reason."""
    reasons = limit_reasons()
    halves = {"all owners of the data": SemanticSettings, "this process": ProcessSettings}
    rows = [
        [f"`{name}`", shown(name, field.default), half, reasons.get(name, OTHERS.get(name, ""))]
        for half, model in halves.items()
        for name, field in model.model_fields.items()
    ]
    return table(["setting", "default", "agreed by", "why this default, or what it does"], rows)


# Descriptions of the settings that are not limits.
OTHERS = {
    "ledger": (
        "location of the data: `log:FOLDER` on disk (short form `--data`), `kafka://…` "
        "[on Kafka](operations/kafka.md), `redis://…` [on Redis](redis.md), `memory:` for tests"
    ),
    "witness": (
        "folder of the rollback check, which records how far each ledger reached; default: beside the data folder; "
        "required [on Redis](redis.md#the-rollback-check)"
    ),
    "host": "address to listen on; without `keys` a loopback one ([security](security.md))",
    "hosts": "more names by which callers may address the gateway, comma separated; others get 421 MISDIRECTED",
    "keys": "file of `oncegate keys`; each call then needs a key with a suitable role ([security](security.md))",
    "insecure_without_keys": "listen on other addresses without keys, so that every caller may do everything",
    "jwt_issuer": "issuer whose tokens (JWT) are credentials ([how](security.md#tokens))",
    "jwt_audience": "audience that tokens must name in `aud`",
    "jwt_keys": (
        "the issuer's public keys (JWK Set): a file, or an address with `https://`; default: "
        "[ask the issuer](security.md#discovery)"
    ),
    "jwt_algorithms": "accepted signature algorithms, comma separated",
    "jwt_roles_claim": "claim with the roles; dots descend into objects, as in `realm_access.roles`",
    "jwt_namespaces_claim": "claim with the namespaces of the token's tenant; `*`: all",
    "jwt_tenant_claim": "claim with the tenant that [quotas](security.md#quotas) count; default: `sub`",
    "jwt_leeway_ms": "tolerated difference of the issuer's clock, at most 300,000",
    "tls_certificate": "PEM file of the gateway's certificate chain; HTTP and gRPC then [use TLS](security.md#tls)",
    "tls_key": "PEM file of its private key, if in another file",
    "tls_client_ca": "PEM file of authorities; callers must present a certificate signed by one of them",
    "port": "0: any free port",
    "health_port": "port for probes only, on the same address: `/healthz/live`, `ready` and `startup`, in plain "
    "HTTP; 0: any free port",
    "grpc_port": "port for gRPC on the same address; 0: any free port ([how](grpc-guide.md))",
    "grpc_reflection": "gRPC server reflection, for tools",
    "port_file": "file to which the port is written once the gateway is ready",
    "log_format": "`text` or `json`",
    "standby": "wait for the end of the owner of ledgers on servers, then take over ([how](operations/standby.md))",
    "duplicates_topic": (
        "topic of the ledger's brokers for [records of duplicates](metrics.md#duplicates-one-by-one); "
        "with a ledger on Kafka only"
    ),
    "shutdown_ms": "time from SIGTERM to the end of the process; callers get nine tenths of it",
}


def shown(name: str, value: object) -> str:
    """Formats a default: bytes in binary units, other numbers with separators."""
    if value is None:
        return ""
    if isinstance(value, int) and name.endswith(("_bytes", "bytes_in_flight", "bytes_per_second")):
        for size, unit in _UNITS.items():
            if value >= size and value % size == 0:
                return f"{value // size} {unit}"
    return f"{value:,}" if isinstance(value, int) else f"`{value}`"


def limit_reasons() -> dict[str, str]:
    """Returns the comment above each field of `Limits`; a field without one shares that of the field above."""
    reasons: dict[str, str] = {}
    comment: list[str] = []
    for line in LIMITS_SOURCE.read_text().splitlines():
        if line.startswith("    # "):
            comment = [*comment, line.removeprefix("    # ")]
        elif match := _FIELD.match(line):
            reasons[match[1]] = " ".join(comment)
            comment = []
    return reasons
