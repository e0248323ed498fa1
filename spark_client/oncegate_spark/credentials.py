"""API key and certificates of a client. No sockets."""

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from oncegate_spark.errors import BadOption

# Read when a request is sent, so that no plan, log or pickle ever contains the key.
API_KEY = "ONCEGATE_API_KEY"
# Longer than any key, and than any token that fits a header.
KEY_BYTES_MAX = 16 << 10
# Arguments that name files, for error messages.
FILES = ("api_key_file", "ca", "certificate", "certificate_key")


@dataclass(frozen=True)
class Credentials:
    """API key or token sent with each request, and the certificates for TLS; each is optional.

        api_key          the key itself; without it and `api_key_file` the environment variable ONCEGATE_API_KEY is used
        api_key_file     file with the key, read for each request: a replaced file takes effect with the next one
        ca               PEM file of the authorities that may sign the gateway's certificate; by default the system's
        certificate      PEM file of the client's certificate, for a gateway that requires one
        certificate_key  PEM file of its private key, not encrypted; by default `certificate` contains both

    Neither `repr` nor an error contains the key. Credentials with an `api_key` cannot be pickled: pass Spark's tasks
    the name of its file. Raises BadOption if arguments contradict each other.
    """

    api_key: str | None = field(default=None, repr=False)
    api_key_file: str | None = None
    ca: str | None = None
    certificate: str | None = None
    certificate_key: str | None = None

    def __post_init__(self) -> None:
        if self.api_key is not None and self.api_key_file is not None:
            raise BadOption("api_key and api_key_file are both set: set only one; nothing was sent")
        if self.certificate_key is not None and self.certificate is None:
            raise BadOption("certificate_key needs certificate: set both; nothing was sent")

    def __reduce__(self) -> tuple[object, ...]:
        if self.api_key is not None:
            raise TypeError("a key cannot be pickled: name its file with api_key_file, or set ONCEGATE_API_KEY there")
        return Credentials, (None, self.api_key_file, self.ca, self.certificate, self.certificate_key)

    @property
    def is_of_tls(self) -> bool:
        """True if an argument that needs TLS is set."""
        return self.ca is not None or self.certificate is not None

    def files(self) -> dict[str, str]:
        """Returns the paths of all files but the key's, by argument."""
        return {name: path for name in FILES if (path := getattr(self, name)) is not None}

    def key(self) -> tuple[str, str]:
        """Returns the key and the name of its source; both are empty without a key. Raises BadOption."""
        if self.api_key is not None:
            return self.api_key.strip(), "api_key"
        if self.api_key_file is None:
            return os.environ.get(API_KEY, "").strip(), API_KEY
        name = f"api_key_file {self.api_key_file}"
        key = _text(self.api_key_file, name)
        if not key:
            raise BadOption(f"{name} is empty: it must hold a key, as `oncegate keys add` prints it; nothing was sent")
        return key, name

    def tls(self) -> ssl.SSLContext:
        """Returns the TLS context, which verifies the gateway's host name. Raises BadOption."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except (OSError, ValueError) as error:
            raise BadOption(
                f"ca {self.ca}: {_why(error)}; name a PEM file of certificates; nothing was sent"
            ) from error
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, self.certificate_key, _no_password)
            except (OSError, ValueError) as error:
                named = f"certificate {self.certificate}"
                named += f", certificate_key {self.certificate_key}" if self.certificate_key is not None else ""
                raise BadOption(
                    f"{named}: {_why(error)}; name PEM files of a certificate and of its private key; nothing was sent"
                ) from error
        return context


NONE = Credentials()


def _text(path: str, name: str) -> str:
    try:
        with Path(path).open("rb") as file:
            text = file.read(KEY_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        raise BadOption(f"{name} cannot be read: {_why(error)}; nothing was sent") from error
    if len(text) > KEY_BYTES_MAX:
        raise BadOption(f"{name} is longer than {KEY_BYTES_MAX} bytes, which no key is; nothing was sent")
    return text.decode("latin-1").strip()


def _why(error: Exception) -> str:
    """Returns the reason without the contents of the file."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "no certificate or key").lower().replace("_", " ")
    return getattr(error, "strerror", None) or str(error)


def _no_password() -> str:
    """Rejects an encrypted key, for which the library would ask at the terminal."""
    raise ValueError("the key is encrypted with a password")
