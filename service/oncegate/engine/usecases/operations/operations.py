"""Joins what operators do by hand over one shard's journal."""

from collections.abc import Callable

from oncegate.engine.commit.journal import Journal
from oncegate.engine.usecases.operations.actions import Actions
from oncegate.engine.usecases.operations.carrying import Carrying
from oncegate.engine.usecases.operations.leftovers import Leftovers
from oncegate.engine.usecases.operations.overview import Overview


class Operations:
    """Holds each use case of operators: actions, imports, leftovers, and what they look at."""

    def __init__(self, journal: Journal, evicting: Callable[[], bool]) -> None:
        self.actions = Actions(journal, evicting)
        self.carrying = Carrying(journal)
        self.leftovers = Leftovers(journal)
        self.overview = Overview(journal)
