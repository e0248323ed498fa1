"""Access options of brokers: SASL, TLS, and access control lists, with their files.

There are two users: `admin`, who has all rights and is used by the brokers themselves, and `oncegate`, whose rights are
defined by ACLs. Their passwords, certificates and keys are generated once, below the brokers' folder, readable only by
its owner.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from deploy.kafka.certificates import Authority

ADMIN, CLIENT = "admin", "oncegate"
USERS = (ADMIN, CLIENT)
SCRAM = "SCRAM-SHA-512"
CLIENT_CERTIFICATES = ("none", "requested", "required")
_LOGIN = "org.apache.kafka.common.security"
_SCRAM_LOGIN = f"{_LOGIN}.scram.ScramLoginModule required;"


class AccessRefused(ValueError):
    """Access options contradict each other, or those with which the folder was created; one line."""


@dataclass(frozen=True)
class Access:
    """Access options of a cluster. `client_certificates`: Kafka's `ssl.client.auth`; `acls`: users other than admin
    need rights.
    """

    sasl: bool = False
    tls: bool = False
    client_certificates: str = "none"
    acls: bool = False

    def __post_init__(self) -> None:
        """Raises AccessRefused if an option has no effect without another."""
        if self.client_certificates != "none" and not self.tls:
            raise AccessRefused("--client-certificates has no effect without --tls")
        if self.acls and not self.sasl and self.client_certificates == "none":
            raise AccessRefused(
                "--acls needs authenticated users: add --sasl, or --tls --client-certificates requested"
            )

    def __str__(self) -> str:
        """Returns the options as on a command line."""
        certificates = "" if self.client_certificates == "none" else f"--client-certificates {self.client_certificates}"
        flags = ["--sasl" * self.sasl, "--tls" * self.tls, certificates, "--acls" * self.acls]
        return " ".join(option for option in flags if option)

    @property
    def protocol(self) -> str:
        """Kafka's security protocol for clients."""
        return ("SASL_" if self.sasl else "") + ("SSL" if self.tls else "PLAINTEXT")

    def properties(self, files: "Files", listeners: Sequence[str] = ("clients",)) -> dict[str, str]:
        """Returns a broker's properties for these options, for its controller and its listeners (lower-case names)."""
        settings: dict[str, str] = {}
        if self.sasl:
            settings |= {
                "sasl.enabled.mechanisms": f"{SCRAM},PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.mechanism.controller.protocol": "PLAIN",
                "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.controller.plain.sasl.jaas.config": _plain(files),
            }
            for listener in listeners:
                settings[f"listener.name.{listener}.plain.sasl.jaas.config"] = _plain(files)
                settings[f"listener.name.{listener}.scram-sha-512.sasl.jaas.config"] = _SCRAM_LOGIN
        if self.tls:
            for store, path in (("keystore", files.broker), ("truststore", files.authority)):
                settings |= {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": str(path)}
            settings["ssl.principal.mapping.rules"] = "RULE:^CN=(.*)$/$1/,DEFAULT"
            settings |= {
                f"listener.name.{listener}.ssl.client.auth": self.client_certificates for listener in listeners
            }
            # Without SASL, controllers authenticate each other by their certificates.
            settings["listener.name.controller.ssl.client.auth"] = "none" if self.sasl else "required"
        if self.acls:
            settings["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            settings["super.users"] = f"User:{ADMIN}"
        return settings

    def parameters(self, files: "Files", user: str = CLIENT) -> dict[str, str]:
        """Returns a client's parameters, with the names used in a ledger's URL."""
        parameters = {"security_protocol": self.protocol}
        if self.sasl:
            parameters |= {
                "sasl_mechanism": SCRAM,
                "sasl_username": user,
                "sasl_password_file": str(files.password_file(user)),
            }
        if self.tls:
            parameters["ssl_cafile"] = str(files.authority)
        if self.client_certificates != "none":
            parameters |= {"ssl_certfile": str(files.certificate(user)), "ssl_keyfile": str(files.key(user))}
        return parameters

    def query(self, files: "Files") -> str:
        """Returns the parameters as the query of a URL."""
        return "&".join(f"{name}={quote(value, safe='/')}" for name, value in self.parameters(files).items())


# Brokers without authentication.
OPEN = Access()


class Files:
    """Files of passwords, certificates and keys below a cluster's folder, generated once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "access"
        self._options = self._folder / "options"
        self.authority = self._folder / "ca.pem"
        # Key and certificate in one file, as Kafka requires.
        self.broker = self._folder / "broker.pem"

    def make(self, access: Access) -> None:
        """Creates the cluster's folder and these files once. Raises AccessRefused if it was created
        with other options.
        """
        made = self._made_with()
        if made is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_all()
            self._options.write_text(str(access))
        elif made != str(access):
            folder = self._folder.parent
            raise AccessRefused(
                f"{folder} was created with {made or 'no access options'}: use the same, or another --data"
            )

    def _made_with(self) -> str | None:
        """Returns the options with which the folder was created; None without brokers in it."""
        if self._options.exists():
            return self._options.read_text()
        return "" if (self._folder.parent / "broker-1").exists() else None

    def password_file(self, user: str) -> Path:
        return self._folder / f"{user}.password"

    def password(self, user: str) -> str:
        return self.password_file(user).read_text()

    def certificate(self, user: str) -> Path:
        return self._folder / f"{user}.pem"

    def key(self, user: str) -> Path:
        return self._folder / f"{user}.key"

    def _make_all(self) -> None:
        authority = Authority()
        _write(self.authority, authority.pem)
        _write(self.broker, b"".join(authority.signed(ADMIN)))
        for user in USERS:
            key, certificate = authority.signed(user)
            _write(self.key(user), key)
            _write(self.certificate(user), certificate)
            # characters without a special meaning in JAAS and shells
            _write(self.password_file(user), secrets.token_urlsafe(24).encode())


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _plain(files: Files) -> str:
    """Returns JAAS's PLAIN configuration: the users, and the brokers' own login."""
    users = " ".join(f'user_{user}="{files.password(user)}"' for user in USERS)
    return f'{_LOGIN}.plain.PlainLoginModule required username="{ADMIN}" password="{files.password(ADMIN)}" {users};'
