"""Finds ports of this machine for servers that are started here."""

import random
import socket
from contextlib import ExitStack, closing
from pathlib import Path

ADDRESS = "127.0.0.1"
# Ports below these are for well-known servers.
_FIRST = 10_000
# Where the system takes ports for clients from, and what it takes where it does not say.
_CLIENTS, _CLIENTS_FIRST = Path("/proc/sys/net/ipv4/ip_local_port_range"), 32_768
_TRIES = 100


def free_ports(count: int) -> list[int]:
    """Gives ports of 127.0.0.1 on which nobody listens now, each another one. OSError: none was found.

    They are none that the system gives to clients: a connection of anybody's could take one before its server starts.
    """
    with ExitStack() as sockets:
        return [_bound(sockets.enter_context(closing(socket.socket()))) for _ in range(count)]


def free_port() -> int:
    """Gives one, as `free_ports` does."""
    return free_ports(1)[0]


def _bound(probe: socket.socket) -> int:
    """Binds to a port by chance: processes that look at once find others."""
    end = _clients_first()
    for _ in range(_TRIES):
        try:
            probe.bind((ADDRESS, random.SystemRandom().randrange(_FIRST, end) if end > _FIRST else 0))
        except OSError:
            continue
        return int(probe.getsockname()[1])
    raise OSError(f"no free port of {ADDRESS} between {_FIRST} and {end} after {_TRIES} tries")


def _clients_first() -> int:
    try:
        return int(_CLIENTS.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _CLIENTS_FIRST
