"""Asks a schema registry what the numbers before Kafka's values mean, by confluent-kafka's client.

A registry that does not answer at the beginning is misspelt, and not waited for; later it is tried for half a minute.
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
# After the first try; the pauses between them are drawn, at most 1, 2, 4, 8 and 16 s.
RETRIES = 5
_TIMEOUT_S = 10.0
# What one schema may refer to, in all: each is a request.
_REFERENCES_MAX = 200
# Registries count from 1 on: none has come so far.
_NEVER_GIVEN = 2**31 - 1
_NO_SCHEMA, _UNAUTHORIZED, _FORBIDDEN, _SERVER_ERROR = 40403, 401, 403, 500


class RegisteredText(NamedTuple):
    """Holds a schema: its text, and by name what it refers to, each behind what that refers to in turn."""

    text: str
    references: tuple[tuple[str, str], ...]


class Registry:
    """Gives schemas of one kind, AVRO or PROTOBUF, by their numbers."""

    def __init__(self, url: str, ca: Path | None, kind: str) -> None:
        """Asks for a schema that is not there, so that what is misspelt is told at once.

        `ca`: PEM file of who signed its certificate, None: those that are commonly trusted. Raises BadRequest: it is no
        registry, it refuses the credentials, or they would be read on the way; NotFound: nobody answers.
        """
        # Protobuf as its compiler has it: as a text it would have to be compiled here.
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
                raise BadRequest(f"--registry {self._url} answers as no schema registry does: {error}") from error
            raise self._refusal("a schema", error) from error
        except Exception as error:
            # Which library the client speaks HTTP with differs by version, and so do its errors.
            raise NotFound(f"no schema registry answers at {self._url} ({error}); name it with --registry") from error

    def schema(self, number: int) -> RegisteredText:
        """Asks for the schema of a number, and for all that it refers to.

        Raises BadRequest: there is none, or it is of another kind; NotFound: the registry is away.
        """
        with self._asking(f"schema {number}"):
            schema = self._client.get_schema(number, fmt=self._form)
            kind = schema.schema_type or "AVRO"
            if kind != self._kind:
                raise BadRequest(f"schema {number} is {kind} in {self._url}, and --output-id says {self._kind.lower()}")
            references: dict[str, str] = {}
            self._gather(schema, references, set())
            return RegisteredText(schema.schema_str or "", tuple(references.items()))

    def _gather(self, schema: Schema, texts: dict[str, str], seen: set[tuple[str, int]]) -> None:
        """Adds what a schema refers to, and before it what that refers to."""
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
            # As above.
            raise NotFound(
                f"the schema registry {self._url} does not answer for {what} ({error}); what was read is kept: run the "
                "same command once it is back"
            ) from error

    def _refusal(self, what: str, error: SchemaRegistryError) -> OncegateError:
        """Says what to do about an answer that is no schema."""
        refusal = f"the schema registry {self._url} answers {error.http_status_code} for {what} ({error.error_message})"
        if error.http_status_code >= _SERVER_ERROR:
            return NotFound(f"{refusal}; what was read is kept: run the same command later")
        if error.http_status_code in {_UNAUTHORIZED, _FORBIDDEN}:
            return BadRequest(f"{refusal}; {REGISTRY_AUTH}=USER:PASSWORD says who asks")
        return BadRequest(f"{refusal}; is it the registry of those who wrote the topic?")


def _settings(url: str, ca: Path | None) -> dict[str, Any]:
    """What its client is given. Raises BadRequest."""
    if "@" in url:
        raise BadRequest(f"--registry has an @: credentials are not sent so, they are read from {REGISTRY_AUTH}")
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one or parts.query or parts.fragment:
        raise BadRequest(f"--registry {url} is no address; write --registry https://HOST:PORT")
    settings: dict[str, Any] = {"url": url, "timeout": _TIMEOUT_S}
    if ca is not None:
        settings["ssl.ca.location"] = str(ca)
    auth = os.environ.get(REGISTRY_AUTH, "").strip()
    if not auth:
        return settings
    if ":" not in auth:
        raise BadRequest(f"{REGISTRY_AUTH} is not written as USER:PASSWORD")
    check_private(parts, REGISTRY_AUTH)
    return {**settings, "basic.auth.user.info": auth}


def _client(settings: dict[str, Any]) -> SchemaRegistryClient:
    try:
        return SchemaRegistryClient(settings)
    except OSError as error:
        raise BadRequest(f"--registry-ca {settings.get('ssl.ca.location')}: {error.strerror or error}") from error
