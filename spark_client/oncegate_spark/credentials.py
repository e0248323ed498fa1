"""What a client shows to a gateway, and by which authority it knows one. No sockets."""

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from oncegate_spark.errors import BadOption

# Read where a request is sent, so that no plan, log or pickle ever holds the key.
API_KEY = "ONCEGATE_API_KEY"
# Longer than any key, and than any token that a header carries.
KEY_BYTES_MAX = 16 << 10
# How a path is known to each file, for errors: by the name of its argument.
FILES = ("api_key_file", "ca", "certificate", "certificate_key")


@dataclass(frozen=True)
class Credentials:
    """The key, or token, that is sent with each request, and the certificates of TLS; all may be left out.

    api_key          the text itself; without it and `api_key_file` that of the environment's ONCEGATE_API_KEY counts
    api_key_file     a file that holds it, read with each request: one that is replaced counts from the next on
    ca               PEM file of the authorities that may have signed the gateway's certificate; without it the system's
    certificate      PEM file of the client's own certificate, for a gateway that asks for one
    certificate_key  PEM file of its private key, not encrypted; without it `certificate` holds both

    Neither `repr` nor an error shows the key, and credentials that hold one are not pickled: to Spark's tasks goes the
    name of its file. Raises BadOption where arguments contradict each other.
    """

    api_key: str | None = field(default=None, repr=False)
    api_key_file: str | None = None
    ca: str | None = None
    certificate: str | None = None
    certificate_key: str | None = None

    def __post_init__(self) -> None:
        if self.api_key is not None and self.api_key_file is not None:
            raise BadOption("api_key and api_key_file both name a key: give one of them; nothing was sent")
        if self.certificate_key is not None and self.certificate is None:
            raise BadOption("certificate_key goes with certificate: give both; nothing was sent")

    def __reduce__(self) -> tuple[object, ...]:
        if self.api_key is not None:
            raise TypeError("a key is never pickled: name its file by api_key_file, or set ONCEGATE_API_KEY there")
        return Credentials, (None, self.api_key_file, self.ca, self.certificate, self.certificate_key)

    @property
    def is_of_tls(self) -> bool:
        """Tells whether something is given that only TLS takes."""
        return self.ca is not None or self.certificate is not None

    def files(self) -> dict[str, str]:
        """The paths that are given, by their arguments: all but the key itself."""
        return {name: path for name in FILES if (path := getattr(self, name)) is not None}

    def key(self) -> tuple[str, str]:
        """The key with the name of what it comes from; both are empty where there is none. Raises BadOption."""
        if self.api_key is not None:
            return self.api_key.strip(), "api_key"
        if self.api_key_file is None:
            return os.environ.get(API_KEY, "").strip(), API_KEY
        name = f"api_key_file {self.api_key_file}"
        key = _text(self.api_key_file, name)
        if not key:
            raise BadOption(f"{name} is empty: it holds a key, as `oncegate keys add` shows it; nothing was sent")
        return key, name

    def tls(self) -> ssl.SSLContext:
        """Makes what connections are encrypted by: the gateway has to prove its name. Raises BadOption."""
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
                    f"{named}: {_why(error)}; name PEM files of a certificate and of its own key; nothing was sent"
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
        raise BadOption(f"{name} is longer than {KEY_BYTES_MAX} bytes, and no key is; nothing was sent")
    return text.decode("latin-1").strip()


def _why(error: Exception) -> str:
    """The reason without what was read."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "no certificate or key").lower().replace("_", " ")
    return getattr(error, "strerror", None) or str(error)


def _no_password() -> str:
    """Answers in place of a person, whom the library would ask at the terminal."""
    raise ValueError("the key is encrypted with a password")
