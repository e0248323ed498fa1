"""Descriptors: the process's limit is raised as far as it goes, and shared out before anything is opened.

What is beyond its share is refused by name, so that no append, no opening and no probe ever meets the limit itself.
"""

import resource
from dataclasses import dataclass

# What a gateway without namespaces and connections has open (some twenty), and files that are read at this moment.
AT_REST = 32
# Its lock, segment and witness, a file that is written beside them, and four runs of old ids that are mapped.
PER_NAMESPACE = 8
# Connections to the port of probes, where there is one, and the port itself.
PROBES = 9
# For so many connections that are served one more is refused, and has a descriptor until its caller has heard it.
REFUSED = 8
# Connections that the system has made and the loop has yet to look at: all may come at once. uvicorn's own default.
BACKLOG_MAX = 2_048
# Of the limit: files of topics that are appended to (`ledgers.log`), and the backlog.
_SHARE = 8


@dataclass(frozen=True)
class Budget:
    """Says how many of each there may be; `backlog`: connections that wait to be looked at."""

    connections: int
    namespaces: int
    backlog: int


def raise_limit() -> int:
    """Raises the limit of open files to what the process may have at most, and returns it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def shared_out(limit: int, connections: int, namespaces: int, kept: int = 0) -> Budget:
    """Shares a limit out: so many connections and namespaces as are wanted, where it is large enough for them.

    `kept`: descriptors that neither gets.
    """
    backlog = min(BACKLOG_MAX, limit // _SHARE)
    left = limit - AT_REST - kept - limit // _SHARE - backlog
    connections = max(1, min(connections, left // 2 * REFUSED // (REFUSED + 1)))
    rest = left - connections - -(-connections // REFUSED)
    return Budget(connections, max(1, min(namespaces, rest // PER_NAMESPACE)), backlog)


def needed(namespaces: int, kept: int = 0) -> int:
    """Returns the lowest limit that leaves room for so many namespaces, and as much again for connections."""
    return -(-(2 * namespaces * PER_NAMESPACE + AT_REST + kept) * _SHARE // (_SHARE - 2))
