"""Knows of each set of ids how often it was forgotten, and which topics elsewhere its rows went to.

A pure function of the ledger's entries.
"""

from collections.abc import Callable

from oncegate.core.entries.id_sets import SetForgotten, SetWritten
from oncegate.core.entries.kinds import Entry

Undo = Callable[[], None]
# Of each set how often it was forgotten, by whose token last; of each set and topic the topic's id.
IdSetsSnapshot = tuple[dict[str, tuple[int, bytes]], list[tuple[str, str, bytes]]]


class IdSetIndex:
    """Knows the sets of ids of one shard that were forgotten, and the identity of topics elsewhere."""

    def __init__(self) -> None:
        self._forgotten: dict[str, tuple[int, bytes]] = {}
        self._topics: dict[str, dict[str, bytes]] = {}

    def generation(self, id_set: str) -> int:
        """Returns how often a set was forgotten as a whole."""
        return self._forgotten.get(id_set, (0, b""))[0]

    @property
    def forgotten_sets(self) -> list[str]:
        """Returns the names of the sets that were forgotten as a whole, sorted."""
        return sorted(self._forgotten)

    def forgotten_by(self, id_set: str) -> bytes:
        """Returns the token of who forgot a set last; empty: nobody did."""
        return self._forgotten.get(id_set, (0, b""))[1]

    def topic_id(self, id_set: str, topic: str) -> bytes | None:
        """Returns the id that a topic had when rows of a set were first written to it; None: none were."""
        return self._topics.get(id_set, {}).get(topic)

    def apply(self, position: int, entry: Entry) -> Undo | None:
        """Applies one entry; returns what undoes it, or None when it is about no set."""
        match entry:
            case SetForgotten(id_set=id_set):
                return self._forget(id_set, entry.token)
            case SetWritten(id_set=id_set):
                return self._write(id_set, entry.topic, entry.topic_id)
        return None

    def _forget(self, id_set: str, token: bytes) -> Undo:
        before, topics = self._forgotten.get(id_set), self._topics.pop(id_set, None)
        self._forgotten[id_set] = self.generation(id_set) + 1, token

        def undo() -> None:
            if before is None:
                del self._forgotten[id_set]
            else:
                self._forgotten[id_set] = before
            if topics is not None:
                self._topics[id_set] = topics

        return undo

    def _write(self, id_set: str, topic: str, topic_id: bytes) -> Undo:
        topics = self._topics.setdefault(id_set, {})
        before = topics.get(topic)
        topics[topic] = topic_id

        def undo() -> None:
            if before is None:
                del topics[topic]
            else:
                topics[topic] = before

        return undo

    def snapshot(self) -> IdSetsSnapshot:
        """Returns all that is known, as containers of its own."""
        written = [
            (id_set, topic, topic_id) for id_set, topics in self._topics.items() for topic, topic_id in topics.items()
        ]
        return dict(self._forgotten), written

    def restore(self, saved: IdSetsSnapshot) -> None:
        """Takes over what was saved, in place of everything."""
        self._forgotten, self._topics = dict(saved[0]), {}
        for id_set, topic, topic_id in saved[1]:
            self._topics.setdefault(id_set, {})[topic] = topic_id
