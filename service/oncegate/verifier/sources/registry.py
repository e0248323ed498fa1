"""Fetches the schemas of Kafka values from a schema registry, with confluent-kafka's client.

A registry that does not answer at the beginning is probably misspelt and is not waited for. Later it is tried for half
a minute.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

try:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
except ImportError as error:
    from oncegate.core.errors import BadRequest

    raise BadRequest(f"--registry needs confluent-kafka's client ({error}): pip install 'oncegate[formats]'") from error

from oncegate.core.errors import BadRequest, NotFound, OncegateError
from oncegate.verifier.address import check_private

# USER:PASSWORD for the registry: read from the environment, so that no command line shows it.
REGISTRY_AUTH = "ONCEGATE_REGISTRY_AUTH"
# Retries after the first try, with random pauses of at most 1, 2, 4, 8 and 16 s.
RETRIES = 5
_TIMEOUT_S = 10.0
# Maximum number of schemas that one schema refers to, directly or not: each is a request.
_REFERENCES_MAX = 200
# Registries count from 1 on; none has reached this number.
_NEVER_GIVEN = 2**31 - 1
_NO_SCHEMA, _UNAUTHORIZED, _FORBIDDEN, _SERVER_ERROR = 40403, 401, 403, 500


class RegisteredText(NamedTuple):
    """A schema: its text and its referenced schemas by name, in dependency order."""

    text: str
    references: tuple[tuple[str, str], ...]


class Registry:
    """Fetches schemas of one kind, AVRO or PROTOBUF, by schema id."""

    def __init__(self, url: str, ca: Path | None, kind: str) -> None:
        """Requests a schema that does not exist, so that a wrong address is reported at once.

        ca: PEM file of the certificate's CA; None: the commonly trusted ones. Raises BadRequest if it is not a
        registry, rejects the credentials, or they would be sent unencrypted; NotFound if no server answers.
        """
        # Protobuf in compiled form; its text would have to be compiled here.
        self._kind, self._url, self._form = kind, url, "serialized" if kind == "PROTOBUF" else None
        settings = _settings(url, ca)
        self._check(_client({**settings, "max.retries": 0}))
        self._client = _client({**settings, "max.retries": RETRIES})

    def _check(self, client: SchemaRegistryClient) -> None:
        try:
            client.get_schema(_NEVER_GIVEN, fmt=self._form)
        except SchemaRegistryError as error:
            if error.error_code == _NO_SCHEMA or error.http_status_code == _FORBIDDEN:
                return
            if error.http_status_code < _SERVER_ERROR and error.http_status_code != _UNAUTHORIZED:
                raise BadRequest(f"--registry {self._url} is not a schema registry: {error}") from error
            raise self._refusal("a schema", error) from error
        except Exception as error:
            # The client's HTTP library and its errors depend on the version.
            raise NotFound(f"no schema registry answers at {self._url} ({error}); name it with --registry") from error

    def schema(self, number: int) -> RegisteredText:
        """Returns the schema with a schema id, and all schemas that it references.

        Raises BadRequest if there is none or it is of another kind, and NotFound if the registry is unreachable.
        """
        with self._asking(f"schema {number}"):
            schema = self._client.get_schema(number, fmt=self._form)
            kind = schema.schema_type or "AVRO"
            if kind != self._kind:
                raise BadRequest(f"schema {number} is {kind} in {self._url}, but --output-id is {self._kind.lower()}")
            references: dict[str, str] = {}
            self._gather(schema, references, set())
            return RegisteredText(schema.schema_str or "", tuple(references.items()))

    def _gather(self, schema: Schema, texts: dict[str, str], seen: set[tuple[str, int]]) -> None:
        """Adds all schemas that a schema references, in dependency order."""
        for reference in schema.references or []:
            version = str(reference.subject), int(reference.version or 0)
            if version in seen:
                continue
            seen.add(version)
            if len(seen) > _REFERENCES_MAX:
                raise BadRequest(f"a schema of {self._url} refers to more than {_REFERENCES_MAX} others")
            referred = self._client.get_version(*version, deleted=True, fmt=self._form).schema
            self._gather(referred, texts, seen)
            texts[str(reference.name)] = referred.schema_str or ""

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        try:
            yield
        except OncegateError:
            raise
        except SchemaRegistryError as error:
            raise self._refusal(what, error) from error
        except Exception as error:
            # See above.
            raise NotFound(
                f"the schema registry {self._url} does not answer for {what} ({error}); progress is saved: run the "
                "same command once it is back"
            ) from error

    def _refusal(self, what: str, error: SchemaRegistryError) -> OncegateError:
        """Returns the error for an answer that is not a schema, with the action to take."""
        refusal = f"the schema registry {self._url} answers {error.http_status_code} for {what} ({error.error_message})"
        if error.http_status_code >= _SERVER_ERROR:
            return NotFound(f"{refusal}; progress is saved: run the same command later")
        if error.http_status_code in {_UNAUTHORIZED, _FORBIDDEN}:
            return BadRequest(f"{refusal}; set {REGISTRY_AUTH}=USER:PASSWORD")
        return BadRequest(f"{refusal}; check that the topic's writers use this registry")


def _settings(url: str, ca: Path | None) -> dict[str, Any]:
    """Returns the client's settings. Raises BadRequest."""
    if "@" in url:
        raise BadRequest(f"--registry has an @: set {REGISTRY_AUTH} to send credentials")
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one or parts.query or parts.fragment:
        raise BadRequest(f"--registry {url} is not an address; write --registry https://HOST:PORT")
    settings: dict[str, Any] = {"url": url, "timeout": _TIMEOUT_S}
    if ca is not None:
        settings["ssl.ca.location"] = str(ca)
    auth = os.environ.get(REGISTRY_AUTH, "").strip()
    if not auth:
        return settings
    if ":" not in auth:
        raise BadRequest(f"{REGISTRY_AUTH} must have the form USER:PASSWORD")
    check_private(parts, REGISTRY_AUTH)
    return {**settings, "basic.auth.user.info": auth}


def _client(settings: dict[str, Any]) -> SchemaRegistryClient:
    try:
        return SchemaRegistryClient(settings)
    except OSError as error:
        raise BadRequest(f"--registry-ca {settings.get('ssl.ca.location')}: {error.strerror or error}") from error
