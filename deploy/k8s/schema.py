"""Generates the chart's values.schema.json: exactly the values of values.yaml, with the bounds defined here."""

import json
from typing import Any

from deploy.k8s.values import Value, values
from oncegate.settings import ProcessSettings, SemanticSettings

# Settings that the chart sets itself, or that are useless in a pod.
OF_THE_CHART = frozenset(
    {
        "ledger",
        "witness",
        "host",
        "hosts",
        "keys",
        "insecure_without_keys",
        "port",
        "grpc_port",
        "grpc_reflection",
        "health_port",
        "port_file",
        "log_format",
        "shutdown_ms",
        "standby",
    }
)
_MILLISECONDS = {"type": "integer", "minimum": 1}
_QUANTITY = {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?)?$"}
_A_QUANTITY = {"type": "string", "pattern": _QUANTITY["pattern"].replace(")?$", ")$")}
_DURATION = {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"}
_PORT = {"type": "integer", "minimum": 1, "maximum": 65_535}
_COUNT = {"type": "integer", "minimum": 1}
_NAME = {"type": "string", "pattern": "^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$", "maxLength": 253}
_KEY = {"type": "string", "pattern": "^[A-Za-z0-9._-]+$", "maxLength": 253}
_KEY_OR_NONE = {"type": "string", "pattern": "^[A-Za-z0-9._-]*$", "maxLength": 253}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_OBJECT = {"type": "object"}
_OBJECTS = {"type": "array", "items": {"type": "object"}}


def _one_of(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


def _listed(pattern: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", "pattern": pattern}, "uniqueItems": True}


def _only(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


# By path, or by its last part.
_BOUNDS: dict[str, dict[str, Any]] = {
    "image.repository": {"type": "string", "minLength": 1},
    "image.tag": {"type": "string", "pattern": r"^([A-Za-z0-9_][A-Za-z0-9._-]{0,127})?$"},
    "image.digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "image.pullPolicy": _one_of("Always", "IfNotPresent", "Never"),
    "image.pullSecrets": _listed("^[a-z0-9][a-z0-9.-]*$"),
    "ledger": _one_of("embedded", "kafka", "redis"),
    "embedded.size": _A_QUANTITY,
    "embedded.accessMode": _one_of("ReadWriteOnce", "ReadWriteOncePod"),
    "embedded.whenDeleted": _one_of("Retain", "Delete"),
    "size": _QUANTITY,
    "sizeLimit": _QUANTITY,
    "kafka.replicas": {"type": "integer", "minimum": 1, "maximum": 9},
    "kafka.brokers": _listed(r"^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$"),
    "kafka.prefix": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
    "kafka.securityProtocol": _one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "kafka.saslMechanism": _one_of("", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    "kafka.options": _only(
        replication=_COUNT,
        min_insync=_COUNT,
        send_ms=_MILLISECONDS,
        commit_ms=_MILLISECONDS,
        transaction_ms=_MILLISECONDS,
        takeover_ms=_MILLISECONDS,
        compression=_one_of("none", "lz4", "zstd"),
        stage_cache_mib={"type": "integer", "minimum": 0},
    ),
    "redis.host": {"type": "string", "pattern": r"^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])?$"},
    "redis.prefix": {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_-]{0,63}$"},
    "redis.options": _only(
        takeover_ms=_MILLISECONDS,
        wait_replicas=_COUNT,
        wait_ms=_MILLISECONDS,
        reply_ms=_MILLISECONDS,
        outputs=_one_of("streams", "none"),
        db={"type": "integer", "minimum": 0},
    ),
    "logFormat": _one_of("json", "text"),
    "hosts": _listed(r"^(\[[0-9a-f:.]+\]|[A-Za-z0-9_.-]+)$"),
    "extraEnv": _OBJECTS,
    "service.type": _one_of("ClusterIP", "LoadBalancer", "NodePort"),
    "service.ipFamily": _one_of("IPv4", "IPv6"),
    "drain.preStopSeconds": {"type": "integer", "minimum": 0},
    "drain.shutdownMs": _MILLISECONDS,
    "drain.terminationGracePeriodSeconds": _COUNT,
    "periodSeconds": _COUNT,
    "failureThreshold": _COUNT,
    "networkPolicy.from": {**_OBJECTS, "minItems": 1},
    "networkPolicy.ledgerTo": _OBJECTS,
    "networkPolicy.ledgerPorts": {"type": "array", "items": _PORT, "uniqueItems": True},
    "networkPolicy.egress": _OBJECTS,
    "interval": _DURATION,
    "scrapeTimeout": _DURATION,
    "labels": _TEXTS,
    "annotations": _TEXTS,
    "podLabels": _TEXTS,
    "podAnnotations": _TEXTS,
    "nodeSelector": _TEXTS,
    "resources": _OBJECT,
    "runAsUser": {"type": ["integer", "null"], "minimum": 1},
    "tolerations": _OBJECTS,
    "affinity": _OBJECT,
    "topologySpreadConstraints": _OBJECTS,
    "extraVolumes": _OBJECTS,
    "extraVolumeMounts": _OBJECTS,
    "extraContainers": _OBJECTS,
    "extraObjects": _OBJECTS,
    "tests.namespace": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
    "port": _PORT,
    "existingSecret": _NAME,
    "tls.ca": _KEY_OR_NONE,
    "tls.certificate": _KEY_OR_NONE,
    "tls.privateKey": _KEY_OR_NONE,
    "key": _KEY,
}
_TYPES: dict[type, str] = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}


def schema() -> dict[str, Any]:
    """Returns the schema, with each value's comment as its description."""
    made: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "oncegate", **_group()}
    for value in values():
        *groups, name = value.path.split(".")
        parent = made
        for group in groups:
            parent = parent["properties"][group]
        parent["properties"][name] = {**_described(value), **(_group() if value.is_group else _bounds(value))}
    # Helm adds this if the chart is a dependency of another one.
    made["properties"]["global"] = {"type": "object"}
    return made


def _group() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _described(value: Value) -> dict[str, Any]:
    return {"description": value.comment} if value.comment else {}


def _bounds(value: Value) -> dict[str, Any]:
    if value.path == "settings":
        return _only(**settings())
    last = value.path.rpartition(".")[2]
    return _BOUNDS.get(value.path) or _BOUNDS.get(last) or {"type": _TYPES[type(value.default)]}


def settings() -> dict[str, Any]:
    """Returns the schema of each gateway setting that the chart leaves to its user."""
    properties: dict[str, Any] = {}
    for half in (SemanticSettings, ProcessSettings):
        for name, description in half.model_json_schema()["properties"].items():
            if name not in OF_THE_CHART:
                properties[name] = {key: description[key] for key in ("type", "enum") if key in description}
    return dict(sorted(properties.items()))


def text() -> str:
    """Encodes the schema as committed."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
