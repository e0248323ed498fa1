"""An observer for events that come from another thread."""

import threading


class EventWaiter:
    """Records events in order."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.events: list[tuple[str, dict[str, object]]] = []

    def event(self, name: str, /, **fields: object) -> None:
        with self._changed:
            self.events.append((name, fields))
            self._changed.notify_all()

    def wait(self, name: str, times: int = 1) -> None:
        """Returns once `times` events of that name have arrived. Raises AssertionError after 30 seconds."""
        with self._changed:
            assert self._changed.wait_for(lambda: [one for one, _ in self.events].count(name) >= times, 30), self.events
