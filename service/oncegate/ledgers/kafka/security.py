"""Parses the connection options of a Kafka ledger's URL: credentials and trusted certificates.

    kafka:…?security_protocol=SASL_SSL&sasl_mechanism=SCRAM-SHA-512&sasl_username=oncegate
        &sasl_password_file=/run/secrets/kafka&ssl_cafile=/etc/kafka/ca.pem

The names are those of Kafka's own clients. A password is read from a file, never from a URL. Files are read when a
client starts, and again when brokers refuse its credentials, so changed files take effect without a restart.
"""

import logging
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

from oncegate.core.errors import BadRequest

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


# The URL's parameters, and their fields in `Security`.
PARAMETERS = {
    "security_protocol": "protocol",
    "sasl_mechanism": "mechanism",
    "sasl_username": "username",
    "sasl_password_file": "password_file",
    "ssl_cafile": "cafile",
    "ssl_certfile": "certfile",
    "ssl_keyfile": "keyfile",
}


@dataclass(frozen=True, slots=True)
class Security:
    """Connection settings of Kafka clients; `PARAMETERS` maps URL parameters to the fields.

    Raises BadRequest: fields contradict one another; the one-line text names the parameter.
    """

    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password_file: Path | None = None
    cafile: Path | None = None
    certfile: Path | None = None
    keyfile: Path | None = None

    def __post_init__(self) -> None:
        """Raises BadRequest if a field is missing, invalid, or has no effect with the others."""
        _require_one_of("security_protocol", self.protocol, PROTOCOLS)
        for parameter, field in PARAMETERS.items():
            given = getattr(self, field) is not None
            counts = {"sasl": self.sends_user, "ssl": self.is_encrypted}.get(parameter.partition("_")[0], True)
            if given and not counts:
                raise BadRequest(f"{parameter} does nothing with security_protocol={self.protocol}")
            if not given and counts and parameter.startswith("sasl_"):
                raise BadRequest(f"security_protocol={self.protocol} needs {parameter}")
        if self.mechanism is not None:
            _require_one_of("sasl_mechanism", self.mechanism, MECHANISMS)
        if self.keyfile is not None and self.certfile is None:
            raise BadRequest("ssl_keyfile needs ssl_certfile, the certificate that it belongs to")

    @classmethod
    def parsed(cls, parameters: Iterable[tuple[str, str]]) -> Self:
        """Parses a URL's parameters; reads each file that they name once, to check it.

        Raises BadRequest, in one line: a parameter is unknown, empty, repeated, or contradicts another, or its file
        cannot be used. The text never contains a value that may be a password.
        """
        given: dict[str, Any] = {}
        for name, value in parameters:
            _require_known(name)
            field = PARAMETERS[name]
            if field in given or not value:
                raise BadRequest(f"{name} is there twice" if value else f"{name} is empty")
            given[field] = Path(value) if field.endswith("file") else value
        security = cls(**given)
        security.client_arguments()
        return security

    @property
    def sends_user(self) -> bool:
        """True if clients authenticate by name and password."""
        return self.protocol.startswith("SASL_")

    @property
    def is_encrypted(self) -> bool:
        return self.protocol.endswith("SSL")

    def client_arguments(self) -> dict[str, Any]:
        """Returns the keyword arguments of aiokafka clients, the password included; reads the files now.

        Raises BadRequest: a file cannot be used; the text names the parameter.
        """
        arguments: dict[str, Any] = {"security_protocol": self.protocol}
        if self.password_file is not None:
            arguments["sasl_mechanism"] = self.mechanism
            arguments["sasl_plain_username"] = self.username
        return arguments | Credentials(self).now

    def read(self) -> tuple[tuple[bytes, ...], dict[str, Any]]:
        """Reads all files; returns their contents and the keyword arguments. Raises as `client_arguments`."""
        arguments: dict[str, Any] = {}
        if self.is_encrypted:
            arguments["ssl_context"] = self._tls()
        if self.password_file is not None:
            arguments["sasl_plain_password"] = _password(self.password_file)
        files = (self.password_file, self.cafile, self.certfile, self.keyfile)
        return tuple(path.read_bytes() for path in files if path is not None), arguments

    def _tls(self) -> ssl.SSLContext:
        """Returns a context that verifies the broker's certificate and host;
        without `cafile`, it trusts the system's CAs.
        """
        try:
            context = ssl.create_default_context(cafile=self.cafile)
        except (OSError, ValueError) as error:
            raise BadRequest(f"ssl_cafile {self.cafile} cannot be used: {_reason(error)}") from None
        if self.certfile is not None:
            try:
                context.load_cert_chain(self.certfile, self.keyfile, self._refuse_encrypted_key)
            except (OSError, ValueError) as error:
                files = " with ssl_keyfile ".join(str(path) for path in (self.certfile, self.keyfile) if path)
                raise BadRequest(f"ssl_certfile {files} cannot be used: {_reason(error)}") from None
        return context

    def _refuse_encrypted_key(self) -> str:
        """Raises BadRequest for an encrypted key; OpenSSL would otherwise prompt for its password at the terminal."""
        raise BadRequest(f"the key in {self.keyfile or self.certfile} is encrypted: store it decrypted")


class Credentials:
    """A client's credentials: the contents of its files as they were last read.
    `now`: the keyword arguments made from them.
    """

    def __init__(self, security: Security | None = None) -> None:
        self._security = security
        self._held: tuple[bytes, ...] = ()
        self.now: dict[str, Any] = {}
        if security is not None:
            self._held, read = security.read()
            self.now = self._marked(read)

    def newer_than(self, tried: Mapping[str, Any]) -> bool:
        """Returns whether the credentials have changed since `tried`; rereads the files unless `now` already differs.

        A file that cannot be used, e.g. half-written, counts as unchanged.
        """
        if self.now is tried and self._security is not None:
            with suppress(BadRequest, OSError):
                held, read = self._security.read()
                if held != self._held:
                    self._held, self.now = held, self._marked(read)
        return self.now is not tried

    def _marked(self, read: dict[str, Any]) -> dict[str, Any]:
        """Attaches this object to the arguments, for `credentials_of`: aiokafka passes on known arguments only."""
        if "sasl_plain_password" in read:
            read["sasl_plain_password"] = _Password(read["sasl_plain_password"])
        for value in read.values():
            value.credentials = self
        return read


class _Password(str):
    """A password with a reference to its `Credentials`."""

    credentials: Credentials


def credentials_of(settings: Mapping[str, Any]) -> Credentials:
    """Returns the `Credentials` attached to a connection's keyword arguments; empty ones if there are none."""
    for name in ("sasl_plain_password", "ssl_context"):
        found = getattr(settings.get(name), "credentials", None)
        if isinstance(found, Credentials):
            return found
    return Credentials()


def _require_one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise BadRequest(f"{name}={value} is none of {', '.join(known)}")


def _require_known(name: str) -> None:
    if name in PARAMETERS:
        return
    if "password" in name:
        raise BadRequest(f"{name}: no password in a URL; write it to a file, and name that by sasl_password_file")
    meant = get_close_matches(name.replace(".", "_").replace("-", "_"), PARAMETERS, 1)
    hint = f"did you mean {meant[0]}?" if meant else f"there are {', '.join(PARAMETERS)}"
    raise BadRequest(f"{name} is no parameter of a connection to Kafka: {hint}")


def _password(path: Path) -> str:
    """Returns the password file's content without the line end; error texts never contain any of it."""
    try:
        held = path.read_bytes()
    except OSError as error:
        raise BadRequest(f"sasl_password_file {path} cannot be read: {error.strerror}") from None
    password = held.decode(errors="replace").removesuffix("\n").removesuffix("\r")
    if not password:
        raise BadRequest(f"sasl_password_file {path} is empty")
    if not password.isprintable() or "\ufffd" in password:
        raise BadRequest(f"sasl_password_file {path} holds more than one line of text in UTF-8")
    return password


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)


def _names_no_password(record: logging.LogRecord) -> bool:
    """Filters aiokafka's log lines of SaslAuthenticateRequest: with PLAIN, they contain the password."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    return not any(type(argument).__name__.startswith("SaslAuthenticateRequest") for argument in arguments)


logging.getLogger("aiokafka.conn").addFilter(_names_no_password)
