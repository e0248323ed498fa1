"""Defines the settings in two frozen halves; precedence: flags, environment (`ONCEGATE_*`), `oncegate.toml`, default.

An unknown name is rejected in each of these sources.

SemanticSettings   determine what a duplicate is, or how long one is known; owners of the same data must agree.
                   Their fingerprint is shown at /version.
ProcessSettings    may differ from process to process.

Every field of `Limits` is a setting of exactly one half, given in its declaration, with the same name and default.
"""

import hashlib
import json
import os
import tomllib
from collections.abc import Callable
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, cast

from pydantic import Field as Bounded
from pydantic import ValidationError, create_model, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from oncegate.core.errors import SettingsError
from oncegate.engine.limits import Limits
from oncegate.variables import PREFIX, no_setting, unusable

FILE = "oncegate.toml"
# Passes the path of the file to the sources; no field has this name.
_FILE_ARGUMENT = "settings_file"


class _Half(BaseSettings):
    """Reads one half of the settings from flags, environment and file; ignores the names of the other half."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        assert isinstance(init_settings, InitSettingsSource)
        file = init_settings.init_kwargs.get(_FILE_ARGUMENT, FILE)
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, file)


S = TypeVar("S", bound=_Half)


def _with_limits(half: str) -> Callable[[type[S]], type[S]]:
    """Adds the limits of one half to a settings class, after its own fields."""

    def extended(own: type[S]) -> type[S]:
        mine = [limit for limit in fields(Limits) if limit.metadata.get("half", "process") == half]
        added: dict[str, Any] = {limit.name: (_type_of(limit), limit.default) for limit in mine}
        return create_model(own.__name__, __base__=own, __module__=own.__module__, __doc__=own.__doc__, **added)

    return extended


def _type_of(limit: "Field[Any]") -> Any:
    choices = limit.metadata.get("choices")
    return limit.type if choices is None else Literal[choices]


@_with_limits("semantic")
class SemanticSettings(_Half):
    """Settings on which owners of the same data must agree: limits only."""

    @model_validator(mode="after")
    def _leases_in_order(self) -> Self:
        limits = cast(Limits, self)
        if not 0 < limits.lease_ms_min <= limits.lease_ms <= limits.lease_ms_max:
            raise ValueError("0 < lease_ms_min <= lease_ms <= lease_ms_max must hold")
        return self

    def fingerprint(self) -> str:
        """Returns 16 hex digits, equal for equal settings."""
        text = json.dumps(self.model_dump(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@_with_limits("process")
class ProcessSettings(_Half):
    """Settings of one process: its addresses, its data and all other limits.

    `ledger` is a URL; a bare path means `log:<path>`.
    """

    ledger: str = "log:./data"
    witness: str | None = None
    host: str = "127.0.0.1"
    # Names by which callers reach it beside its own address, comma separated: a name that is none is refused.
    hosts: str = ""
    # The file of `oncegate keys`; without one only loopback is listened on, unless the next says otherwise.
    keys: Path | None = None
    insecure_without_keys: bool = False
    # Whose tokens are taken, for whom they have to be, and where the issuer's public keys are: a file, or a URL; where
    # it is not said, the issuer's configuration is asked (OpenID Connect Discovery).
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    jwt_keys: str | None = None
    jwt_algorithms: str = "RS256,ES256"
    # The claims that say roles and namespaces; dots go into objects, as in realm_access.roles.
    jwt_roles_claim: str = "oncegate_roles"
    jwt_namespaces_claim: str = "oncegate_namespaces"
    # The claim that says the tenant that quotas are of; none: each `sub` is one.
    jwt_tenant_claim: str | None = None
    # Clocks of two machines differ; five minutes are the most that anybody should need.
    jwt_leeway_ms: int = Bounded(default=30_000, ge=0, le=300_000)
    # PEM files: the gateway's certificate, its key where that lies elsewhere, and who signs callers' certificates.
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    port: int = 8080
    # Where gRPC is served beside HTTP; none: it is not.
    grpc_port: int | None = None
    grpc_reflection: bool = False
    # Where probes alone are answered, in plain HTTP, however many connections the other ports have; none: nowhere.
    health_port: int | None = None
    port_file: Path | None = None
    log_format: Literal["text", "json"] = "text"
    shutdown_ms: int = 30_000
    standby: bool = False
    # The topic of the ledger's brokers where each duplicate is told; none: nowhere.
    duplicates_topic: str | None = None

    @model_validator(mode="after")
    def _filters_can_be_made(self) -> Self:
        limits = cast(Limits, self)
        if not 0 < limits.cold_fpr < 1:
            raise ValueError("0 < cold_fpr < 1 must hold")
        if limits.cold_filter != Limits.cold_filter:
            from oncegate.index.lsm.bloom import require  # with numpy and kernels, which the default needs not

            require(limits.cold_filter)
        return self

    @model_validator(mode="after")
    def _rates_are_bounds(self) -> Self:
        limits = cast(Limits, self)
        tenants = (limits.tenant_ids_per_second, limits.tenant_bytes_per_second)
        if min(*tenants, limits.tenant_open_claims, limits.tenant_namespaces) < 0:
            raise ValueError("quotas of tenants are 0 (no bound) at least")
        if min(limits.ids_per_second, limits.bytes_per_second) < 0:
            raise ValueError("ids_per_second and bytes_per_second are 0 (no bound) at least")
        if limits.duplicate_records_per_second < 1:
            raise ValueError("duplicate_records_per_second is 1 at least; leave duplicates_topic out for none")
        return self

    @model_validator(mode="after")
    def _eviction_gets_on(self) -> Self:
        limits = cast(Limits, self)
        if limits.hot_ids < 0 or min(limits.seal_bytes, limits.merge_bytes_per_second, limits.run_ids) < 1:
            raise ValueError("hot_ids is 0 at least; seal_bytes, merge_bytes_per_second and run_ids are 1")
        return self


class Settings:
    """Both halves of the effective settings."""

    def __init__(self, semantic: SemanticSettings, process: ProcessSettings) -> None:
        self.semantic = semantic
        self.process = process

    @property
    def limits(self) -> Limits:
        """The limits of both halves."""
        values = self.semantic.model_dump() | self.process.model_dump()
        return Limits(**{field.name: values[field.name] for field in fields(Limits)})


def load(file: Path | None = None, **flags: Any) -> Settings:
    """Reads the settings from flags (None if not given), environment and file.

    `file` must exist if it is given; otherwise `oncegate.toml` in the working folder is read if it exists. Raises
    SettingsError, which names the first invalid setting. That includes an unknown variable ONCEGATE_*, unless clients
    use it or it is a service link of Kubernetes.
    """
    path = file if file is not None else Path(FILE)
    if file is not None and not file.is_file():
        raise SettingsError(f"no settings file {file}")
    _refuse_unknown(path)
    flag_values = {name: value for name, value in flags.items() if value is not None}
    for reason in unusable(os.environ, names(), flag_values):
        raise SettingsError(reason)
    try:
        flag_values[_FILE_ARGUMENT] = path
        return Settings(SemanticSettings(**flag_values), ProcessSettings(**flag_values))
    except ValidationError as error:
        raise SettingsError(_first_of(error)) from error


def _first_of(error: ValidationError) -> str:
    """Returns the first error with its setting's name, which our own checks already include in the message."""
    first = error.errors()[0]
    name, ours = ".".join(str(part) for part in first["loc"]), first.get("ctx", {}).get("error")
    reason = first["msg"] if ours is None else str(ours)
    return f"{name}: {reason}" if name else reason


@dataclass(frozen=True)
class SettingOrigin:
    """An effective setting. source: flag, the name of the environment variable, the path of the file, or default."""

    name: str
    value: object
    source: str


def origins(settings: Settings, file: Path | None = None, **flags: Any) -> list[SettingOrigin]:
    """Returns the source of each effective setting, given the arguments of `load`; semantic ones first."""
    path = file if file is not None else Path(FILE)
    in_file = tomllib.loads(path.read_text()) if path.is_file() else {}
    values = settings.semantic.model_dump() | settings.process.model_dump()
    return [SettingOrigin(name, value, _source(name, flags, in_file, path)) for name, value in values.items()]


def _source(name: str, flags: dict[str, Any], in_file: dict[str, Any], path: Path) -> str:
    if flags.get(name) is not None:
        return "flag"
    variable = f"{PREFIX}{name.upper()}"
    if variable in {key.upper() for key in os.environ}:
        return variable
    return str(path) if name in in_file else "default"


def _refuse_unknown(path: Path) -> None:
    if not path.is_file():
        return
    try:
        document = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from error
    for name in document:
        if name not in names():
            raise SettingsError(no_setting(str(path), name, names()))


def names() -> set[str]:
    """Returns the names of all settings."""
    return SemanticSettings.model_fields.keys() | ProcessSettings.model_fields.keys()
