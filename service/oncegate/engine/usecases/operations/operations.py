"""Groups the use cases of operators for one shard."""

from collections.abc import Callable

from oncegate.engine.commit.journal import Journal
from oncegate.engine.usecases.operations.actions import Actions
from oncegate.engine.usecases.operations.carrying import Carrying
from oncegate.engine.usecases.operations.leftovers import Leftovers
from oncegate.engine.usecases.operations.overview import Overview


class Operations:
    """The use cases of operators: actions, imports, leftovers and overview."""

    def __init__(self, journal: Journal, evicting: Callable[[], bool]) -> None:
        self.actions = Actions(journal, evicting)
        self.carrying = Carrying(journal)
        self.leftovers = Leftovers(journal)
        self.overview = Overview(journal)
