"""Holds the use cases of one namespace over its shards; transports call them directly.

Settings, topics, batches and the audit trail are entries of one ledger, that of the home shard. The key, the quotas and
the backlog belong to no ledger. Each namespace has one shard in this version.
"""

from collections.abc import Sequence

from oncegate.core.errors import NotEmpty
from oncegate.engine.admission import Backlog
from oncegate.engine.names import CLAIMED, chosen
from oncegate.engine.policies.settings import READ_TIMES, Settings
from oncegate.engine.shard import Shard
from oncegate.engine.usecases.batches import Batches
from oncegate.engine.usecases.operations.operations import Operations
from oncegate.engine.usecases.produce import Records
from oncegate.engine.usecases.topics import Topics
from oncegate.hashing.id_times import TimedFingerprinter
from oncegate.hashing.ids import Fingerprinter, IdSets
from oncegate.hashing.keys import key_check
from oncegate.hashing.payloads import PayloadDigester
from oncegate.hashing.rows import RowFingerprinter
from oncegate.ports import Mark


class Namespace:
    """The use cases of one namespace. All of them may be called concurrently, on one event loop.

    shards: at least one; the first is the home shard. claims, producers, drivers, direct: the use cases of the one
    shard; with several shards, a request to them is divided here.
    """

    def __init__(self, name: str, shards: Sequence[Shard]) -> None:
        home = shards[0]
        journal, opened = home.journal, home.opened
        self.name, self.shards, self.home = name, shards, home
        self.id_sets, self.key_check = IdSets(opened.key, journal.index.id_sets.generation), key_check(opened.key)
        self.row_fingerprints, self.payloads = RowFingerprinter(opened.key), PayloadDigester(opened.key)
        self.rates, self.backlog = journal.rates, Backlog()
        self.claims, self.producers, self.drivers, self.direct = home.claims, home.producers, home.drivers, home.direct
        # The address of the topics that rows are sent to; empty: the topics are in the ledger itself.
        self.topics_at = "" if opened.topics.rows is None else opened.topics.rows.where
        self.settings = Settings(journal, self.topics_at)
        self.topics = Topics(journal, home.outputs, opened.topics.rows)
        self.records = Records(journal, self.topics, self.producers, home.places)
        self.batches = Batches(journal, self.topics, home.stages, home.places)
        self.operations = Operations(journal, lambda: home.eviction.busy)

    def fingerprints(self, named: str | None = None, own: str = CLAIMED) -> Fingerprinter:
        """Returns the fingerprinter for the ids of one request, in the dedup scope `named`, or in `own` if `named` is
        None.

        The fingerprinter also reads the time of each id if the namespace's ids carry one. Raises TooLarge for the name.
        """
        printer = self.id_sets.of(own if named is None else chosen(named, own, self.home.journal.limits))
        read = READ_TIMES[self.home.journal.index.settings.in_force.id_time]
        return printer if read is None else TimedFingerprinter(printer, read)

    @property
    def mark(self) -> Mark:
        """Returns the mark of the home shard's last durable append."""
        return self.home.group_commit.mark

    def require(self, mark: Mark) -> None:
        """Raises LedgerBehind unless the ledger contains `mark`.

        A mark of a predecessor is logged and passes. The answer carries the ledger's current mark instead.
        """
        marks, observer = self.home.marks, self.home.journal.observer
        if marks.is_of_predecessor(mark):
            observer.event(
                "mark_of_predecessor",
                namespace=self.name,
                ledger=mark.ledger.hex(),
                position=mark.position,
                held=marks.holds(mark),
            )
            return
        try:
            marks.require(mark)
        except Exception:
            observer.event("ledger_behind", namespace=self.name, position=mark.position)
            raise

    async def require_empty(self) -> None:
        """Returns once the namespace contains only settings and no change waits to become durable.

        Raises NotEmpty with the count of each kind; LedgerFull, LedgerDown: the contents are unknown.
        """
        group_commit = self.home.group_commit
        await group_commit.all_durable()
        while group_commit.next_position - 1 > group_commit.mark.position:
            await group_commit.all_durable()
        counts = self.home.journal.index.held()
        if counts:
            listed = ", ".join(f"{count} {kind}" for kind, count in counts.items())
            name = self.name
            raise NotEmpty(
                f"namespace {name} holds {listed}: `?confirm={name}` deletes it with them; nothing was deleted",
                holds=counts,
            )
