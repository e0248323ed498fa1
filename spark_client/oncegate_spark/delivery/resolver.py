"""Settles claims whose writer is gone by what the sink says, and writes nothing: completed, or free again."""

from collections.abc import Sequence
from dataclasses import dataclass

from oncegate_spark.delivery.sink import Record, Sink, checked
from oncegate_spark.protocol.answers import Claimed
from oncegate_spark.sync.attempt import Attempt
from oncegate_spark.sync.gateway import Gateway

# Each id is a claim of its own until the sink has said: as many as fit well into a lease.
IDS_AT_ONCE = 1_000
_OVER = "CLAIMED_OVER"


@dataclass
class Resolved:
    """Counts what became of ids. completed: the sink has them. released: it has not, and they are free. held: another
    attempt holds them, and its lease lives, or the namespace keeps them for it (`lease_expiry` is hold). Ids that are
    written, or that nobody has claimed, are not counted."""

    completed: int = 0
    released: int = 0
    held: int = 0


class Resolver:
    """Settles what writers of one sink have left in doubt; ids come from whoever knows them, as the job's source.

    It costs three small calls for each id that is in doubt, one for each other, and one look into the sink for a
    thousand: it is for what dead writers have left, not for all that was ever written. Where the namespace lets nobody
    take over what a dead writer held (`lease_expiry` is hold or fail), only `oncegate resolve` settles it.
    """

    def __init__(self, gateway: Gateway, sink: Sink, *, lease_ms: int | None = None, id_set: str | None = None) -> None:
        self._gateway, self._sink = gateway, sink
        self._lease_ms, self._id_set = lease_ms, id_set

    def resolve(self, ids: Sequence[str]) -> Resolved:
        """Complete those of these ids that are in doubt and in the sink, release those in doubt that are not.

        Raises what the sink's `find` raises, and what the gateway's calls raise, InDoubt where `lease_expiry` is fail:
        what was in doubt stays so.
        """
        checked([Record(record_id) for record_id in ids], self._sink)
        total = Resolved()
        for start in range(0, len(ids), IDS_AT_ONCE):
            with self._gateway.attempt(id_set=self._id_set) as attempt:
                self._resolve(attempt, list(dict.fromkeys(ids[start : start + IDS_AT_ONCE])), total)
        return total

    def _resolve(self, attempt: Attempt, ids: list[str], total: Resolved) -> None:
        doubtful: dict[str, Claimed] = {}
        for record_id in ids:
            state = self._gateway.explain(record_id, id_set=self._id_set or "")["state"]
            total.held += state == "CLAIMED_LIVE"
            if state != _OVER:
                continue
            claimed = attempt.claim([record_id], self._lease_ms)
            if claimed.in_doubt:
                doubtful[record_id] = claimed
            else:  # meanwhile settled by another, or free: then nobody has written it since; or kept for its holder
                total.held += claimed.verdicts.unsettled
                attempt.release(claimed)
        if not doubtful:
            return
        present = self._sink.find(list(doubtful))
        for record_id, claimed in doubtful.items():
            # What another attempt has taken over meanwhile it has asked the sink for: nothing of it is changed here.
            taken_over = attempt.settle(claimed, "complete" if record_id in present else "release")
            total.held += taken_over
            total.completed += record_id in present and not taken_over
            total.released += record_id not in present and not taken_over
