"""Finds free ports on this machine for servers started here."""

import random
import socket
from contextlib import ExitStack, closing
from pathlib import Path

ADDRESS = "127.0.0.1"
# Ports below are for well-known servers.
_FIRST = 10_000
# Start of the system's ephemeral ports, and its usual value.
_CLIENTS, _CLIENTS_FIRST = Path("/proc/sys/net/ipv4/ip_local_port_range"), 32_768
_TRIES = 100


def free_ports(count: int) -> list[int]:
    """Returns distinct free ports of 127.0.0.1. Raises OSError if there are none.

    Excludes ephemeral ports, since any connection could take one before its server starts.
    """
    with ExitStack() as sockets:
        return [_bound(sockets.enter_context(closing(socket.socket()))) for _ in range(count)]


def free_port() -> int:
    return free_ports(1)[0]


def _bound(probe: socket.socket) -> int:
    """Binds to a random port, so that concurrent searches find different ports."""
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
