"""Runs the checks of `oncegate doctor` in order."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from oncegate.cli.doctor import data, gateway, machine, secrets, servers
from oncegate.cli.doctor.findings import DoctorFinding, warning, wrong
from oncegate.cli.requests import RunningGateway
from oncegate.cli.serve import serve_flags
from oncegate.core.errors import NotFound, OncegateError, SettingsError
from oncegate.engine.names import DEFAULT_NAMESPACE
from oncegate.ledgers import parse_url
from oncegate.settings import Settings, load

NamedCheck = tuple[str, Callable[[], Iterable[DoctorFinding]]]


def findings_of(
    flags: dict[str, Any], url: str | None, namespace: str | None, ca: Path | None, certificate: Path | None
) -> Iterator[DoctorFinding]:
    """Yields the findings of an installation, and of its gateway if one answers."""
    try:
        file, flag_values = serve_flags(**flags)
        settings = load(file, **flag_values)
        scheme, location = parse_url(settings.process.ledger)
    except (SettingsError, OncegateError) as error:
        yield wrong("settings", str(error), "no start succeeds so", "oncegate config shows where each comes from")
        return
    reached = RunningGateway(_url(settings) if url is None else url, ca=ca, certificate=certificate)
    answers = _answers(reached)
    for name, check in _checks(settings, scheme, location, answers, namespace):
        yield from _seen(name, check)
    if not answers:
        text = f"no gateway answers at {reached.url}"
        why, do = "its health was not seen, nor a claim", "start one (oncegate serve), or name it by --url"
        yield (warning if url is None else wrong)("gateway", text, why, do)
        return
    folders = partial(data.folders_of, settings, location) if scheme == "log" else None
    yield from _seen("gateway", lambda: gateway.health(settings, reached, namespace))
    yield from _seen("claim", lambda: gateway.claim(reached, folders, namespace or DEFAULT_NAMESPACE))


def _checks(
    settings: Settings, scheme: str, location: str, answers: bool, namespace: str | None
) -> Iterator[NamedCheck]:
    yield "python", lambda: machine.python(settings)
    yield "clock", lambda: machine.clock(settings)
    yield "descriptors", lambda: machine.descriptors(settings)
    yield "ports", lambda: machine.ports(settings, answers)
    if scheme == "log":
        yield "data", lambda: data.folders(settings, location, answers)
        yield "ledgers", lambda: data.ledgers(settings, location, namespace)
    elif scheme == "kafka":
        yield "ledger", lambda: servers.kafka(location, namespace or DEFAULT_NAMESPACE)
    elif scheme in ("redis", "rediss"):
        yield "ledger", lambda: servers.redis(location, scheme == "rediss")
    yield "keys", lambda: secrets.key_file(settings)
    yield "tls", lambda: secrets.certificates(settings)


def _seen(name: str, check: Callable[[], Iterable[DoctorFinding]]) -> Iterator[DoctorFinding]:
    """Yields the findings of a check. A check that fails is a finding too; a bug keeps its traceback."""
    try:
        yield from check()
    except (OncegateError, SettingsError) as error:
        yield wrong(name, str(error), "the check could not be made", "mend this first")
    except OSError as error:
        reason = f"{error.filename or 'the system'}: {error.strerror or error}"
        yield wrong(
            name, reason, servers.NOT_THERE if name == "ledger" else "the check could not be made", servers.REACH
        )
    except ModuleNotFoundError as error:
        yield wrong(name, f"{error.name} is not installed", servers.NOT_THERE, "install the ledger's extra")


def _url(settings: Settings) -> str:
    process = settings.process
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(process.host, process.host)
    return f"{'https' if process.tls_certificate else 'http'}://{host}:{process.port}"


def _answers(reached: RunningGateway) -> bool:
    try:
        reached.ask("healthz/live")
    except NotFound:
        return False
    except OncegateError:
        return True
    return True
