"""Chooses the set that the ids of a request are of: the one that it names, or the one that its kind of call uses.

An id is known by its set and its value. Rows that are produced have a set of their own for each topic, so one id may
go to two topics; who wants two kinds of calls, or two topics, to meet names one set for both.
"""

from oncegate.engine.limits import Limits
from oncegate.engine.names import check_length

CLAIMED, TAKEN = "", "dedup"


def produced(topic: str) -> str:
    """Returns the set of rows that are produced to a topic."""
    return topic


def chosen(named: str | None, own: str, limits: Limits) -> str:
    """Returns the set that a request names, which may be empty, or its call's own where it names none. Raises
    TooLarge."""
    if named is None:
        return own
    check_length("id_set", named, limits)
    return named
