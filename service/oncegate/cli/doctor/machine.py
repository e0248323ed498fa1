"""Checks the machine: Python and installed extras, clock, open files, ports."""

import ctypes
import resource
import socket
import struct
import sys
from collections.abc import Iterator
from importlib.util import find_spec

from oncegate.cli.doctor.findings import DoctorFinding, ok, warning, wrong
from oncegate.core.errors import SettingsError
from oncegate.doors import allowed_address, is_guarded
from oncegate.ledgers import parse_url
from oncegate.runtime.process import needed, shared_out
from oncegate.settings import Settings

OLDEST, BEFORE = (3, 11), (3, 14)
# The module that each scheme of ledger URLs needs.
EXTRAS = {"kafka": "aiokafka", "redis": "redis", "rediss": "redis"}
# The first members of struct timex (64-bit glibc): modes, offset, freq, maxerror, esterror, status.
_TIMEX, _TIMEX_BYTES, _UNSYNCHRONISED = struct.Struct("@Iqqqqi"), 256, 0x40


def python(settings: Settings) -> Iterator[DoctorFinding]:
    """Checks the interpreter and the extras that the settings need."""
    version = ".".join(map(str, sys.version_info[:3]))
    if not OLDEST <= sys.version_info[:2] < BEFORE:
        yield wrong("python", f"Python {version}", "3.11 to 3.13 are tested", "make an environment of one of these")
    elif sys.maxsize < 2**32:
        yield wrong("python", "Python of 32 bits", "an index reserves 67 GB of addresses", "install one of 64 bits")
    else:
        yield ok("python", f"Python {version}")
    process = settings.process
    required = {
        "ledger": EXTRAS.get(parse_url(process.ledger)[0]),
        "jwt_issuer": "joserfc" if process.jwt_issuer else None,
    }
    required["grpc_port"] = "grpc" if process.grpc_port is not None else None
    extras = {"aiokafka": "kafka", "redis": "redis", "joserfc": "jwt", "grpc": "grpc"}
    for setting, module in required.items():
        if module is not None and find_spec(module) is None:
            extra = extras[module]
            yield wrong(
                "python",
                f"{module} is not installed",
                f"the setting {setting} needs it, and no start succeeds without",
                f"pip install 'oncegate[{extra}]'",
            )


def clock(settings: Settings) -> Iterator[DoctorFinding]:
    """Checks whether the kernel reports the clock as synchronised with a time server."""
    why = "horizons, leases of tokens (exp) and times in the trail are as wrong as the clock"
    state = ctypes.create_string_buffer(_TIMEX_BYTES)
    try:
        ctypes.CDLL(None).adjtimex(state)
    except (AttributeError, OSError):
        yield warning("clock", "the kernel does not report the state of the clock", why, "run chrony or ntpd")
        return
    if _TIMEX.unpack_from(state)[-1] & _UNSYNCHRONISED:
        yield warning("clock", "the clock is not synchronised, according to the kernel", why, "run chrony or ntpd")
    else:
        yield ok("clock", "synchronised")


def descriptors(settings: Settings) -> Iterator[DoctorFinding]:
    """Checks whether the open-file limit allows the configured connections and namespaces."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = settings.limits
    budget = shared_out(hard, limits.connections, limits.namespaces)
    if budget.connections < limits.connections or budget.namespaces < limits.namespaces:
        yield warning(
            "descriptors",
            f"{hard} open files leave room for {budget.connections} connections and {budget.namespaces} namespaces",
            f"{limits.connections} and {limits.namespaces} are set: one more is refused",
            f"ulimit -n {needed(limits.namespaces)}, or LimitNOFILE of systemd",
        )
    else:
        yield ok("descriptors", f"{hard} open files")


def ports(settings: Settings, answers: bool) -> Iterator[DoctorFinding]:
    """Checks whether the ports are free, unless a gateway `answers` there."""
    process = settings.process
    try:
        address = allowed_address(process.host, is_guarded(process))
    except SettingsError as error:
        yield wrong("ports", str(error), "no start succeeds so", "change host, or name keys")
        return
    for name, port in (
        ("port", process.port),
        ("grpc_port", process.grpc_port),
        ("health_port", process.health_port),
    ):
        if port is None or (answers and port):
            continue
        if (taken := _taken(str(address), port)) is not None:
            yield wrong(
                "ports",
                f"{name} {port} of {address}: {taken}",
                "no start succeeds so",
                "stop who has it, or set another",
            )
        else:
            yield ok("ports", f"{name} {port} of {address} is free")
    if answers and process.port:
        yield ok("ports", f"a gateway answers at port {process.port}")


def _taken(host: str, port: int) -> str | None:
    """Returns the reason why listening on a port fails; None if it succeeds."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
            tried.listen(1)
        except OSError as error:
            return error.strerror or str(error)
    return None
