"""An honest person who clears leftovers of dead tasks: "done" means written, "not done" means never written.

About rows of an attempt that still tries, the person states only what is done.
"""

import random
from collections.abc import Callable, Iterable
from typing import Any

from oncegate.engine.producer_requests import ResolveRequest
from tests.model.sequences.actors import Attempt, Request, Task

Written = Callable[[str, int], int]


class Person:
    """The person. `attempts`: all attempts; `written`: the number of writes of each row of a lane."""

    def __init__(self, rng: random.Random, written: Written, attempts: Callable[[], Iterable[Attempt]]) -> None:
        self._rng, self._written, self._attempts = rng, written, attempts

    def of_sequences(self, tasks: list[Task]) -> Request | None:
        """Looks at some rows of one of these tasks. Returns None if nothing is certain about them or there are no
        tasks."""
        task = self._rng.choice(tasks)
        first = self._rng.randrange(len(task.rows))
        rows = task.rows[first : first + self._rng.randrange(1, 4)]
        found = self._found(task, rows)
        return None if found is None else Request("P", "resolve", (task.lane, (rows[0], rows[-1]), found))

    def of_claims(self, tasks: list[Task], claims: dict[bytes, set[int]]) -> Request | None:
        """Looks at one of these claims, by the rows that it holds. Returns None if nothing is certain or there are no
        claims."""
        if not claims:
            return None
        claim = self._rng.choice(list(claims))
        task = next(task for task in tasks if claims[claim] & set(task.rows))
        found = self._found(task, tuple(claims[claim]))
        return None if found is None else Request("P", "resolve_claim", (claim, found))

    def _found(self, task: Task, rows: tuple[int, ...]) -> ResolveRequest | None:
        written = [bool(self._written(task.lane, row)) for row in rows]
        if all(written):
            return ResolveRequest(True, "P", "it is written")
        of_task: list[Any] = [one for one in self._attempts() if one.task == task and one.trying]
        return None if any(written) or of_task else ResolveRequest(False, "P", "nobody writes it")
