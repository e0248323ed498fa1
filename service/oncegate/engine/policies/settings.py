"""Sets a namespace up, over one journal: what it is told replaces what it was, as one entry of the ledger."""

from dataclasses import asdict, replace

from oncegate.core.claims import IdTime, LeaseExpiry, OnLedgerDown
from oncegate.core.entries.kinds import NamespaceSet
from oncegate.core.errors import BadRequest
from oncegate.engine.commit.journal import Journal
from oncegate.engine.deadline import Deadline
from oncegate.engine.requests import SettingsRequest
from oncegate.hashing.id_times import ReadTimes, of_event_ids, of_uuids

READ_TIMES: dict[int, ReadTimes | None] = {IdTime.NONE: None, IdTime.EVENT_ID: of_event_ids, IdTime.UUID7: of_uuids}


class Settings:
    """Tells and changes the settings of a namespace. topics_at: where topics lie that rows are sent to, empty: here."""

    def __init__(self, journal: Journal, topics_at: str) -> None:
        self._journal = journal
        self._topics_at = topics_at

    async def configure(self, request: SettingsRequest, deadline: Deadline) -> None:
        """Sets the namespace up; None: as it is. Durable when it returns.

        Raises BadRequest, LedgerFull, DeadlinePassed: nothing was changed; LedgerDown: unknown, repeat it.
        """
        deadline.check()
        journal, known = self._journal, self.in_force
        changed = {name: int(value) for name, value in asdict(request).items() if value is not None}
        settings = replace(known, **changed)
        self._check_horizon(settings.horizon_ms)
        if settings.record_headers != known.record_headers:
            self._check_record_headers(bool(settings.record_headers))
        if settings != known:
            journal.group_commit.check()
            await journal.group_commit.durable(journal.record([replace(settings, wall_ms=journal.wall_ms())]))
        await journal.group_commit.durable(journal.index.settings.position)

    @property
    def in_force(self) -> NamespaceSet:
        """Returns the settings as the ledger has them."""
        return self._journal.index.settings.in_force

    @property
    def horizon_ms(self) -> int:
        """Tells how long a done id is known; 0: for ever."""
        return self.in_force.horizon_ms

    @property
    def auto_create_topics(self) -> bool:
        """Tells whether a first write makes its topic."""
        return bool(self.in_force.auto_create_topics)

    @property
    def record_headers(self) -> bool:
        """Tells whether records in topics elsewhere say who wrote them."""
        return bool(self.in_force.record_headers)

    @property
    def lease_expiry(self) -> LeaseExpiry:
        """Tells what becomes of ids whose lease ran out."""
        return LeaseExpiry(self.in_force.lease_expiry)

    @property
    def id_time(self) -> IdTime:
        """Tells how ids carry the time at which they were made."""
        return IdTime(self.in_force.id_time)

    @property
    def shadow(self) -> bool:
        """Tells whether every verdict is told as GRANTED, with what it would have been beside it."""
        return bool(self.in_force.shadow)

    @property
    def on_ledger_down(self) -> OnLedgerDown:
        """Tells what whoever claims ids is told while the ledger is down."""
        return OnLedgerDown(self.in_force.on_ledger_down)

    @property
    def policies(self) -> dict[str, str]:
        """Tells which settings change what callers are told, by name; those that are as by default left out."""
        told = {"lease_expiry": self.lease_expiry.name.lower()} if self.lease_expiry else {}
        told |= {"id_time": self.id_time.name.lower()} if self.id_time else {}
        told |= {"on_ledger_down": self.on_ledger_down.name.lower()} if self.on_ledger_down else {}
        return told | ({"shadow": "every verdict is told as GRANTED"} if self.shadow else {})

    @property
    def lowering(self) -> tuple[bool, bool]:
        """Returns whether shadow mode is on, and whether claims pass while the ledger is down: each leaves less of what
        is promised."""
        return self.shadow, self.on_ledger_down is OnLedgerDown.PASS_MARKED

    @property
    def read_time(self) -> ReadTimes | None:
        """Returns what reads from ids when they were made; None: they do not say it."""
        return READ_TIMES[self.id_time]

    def _check_horizon(self, horizon_ms: int) -> None:
        if 0 < horizon_ms < self._journal.limits.horizon_ms_min:
            raise BadRequest(
                f"a horizon of {horizon_ms} ms: at least {self._journal.limits.horizon_ms_min}, for a retry may "
                "come as late as a lease and its repeats, or 0 to keep ids for ever"
            )

    def _check_record_headers(self, wanted: bool) -> None:
        """Refuses a change of record_headers where rows go nowhere else, or where something is there already."""
        if wanted and not self._topics_at:
            raise BadRequest(
                "record_headers are headers of Kafka records, and rows of this gateway lie in topics of its own: leave "
                "it out, or serve with --ledger kafka://…; no setting was changed"
            )
        if self._journal.index.held():
            raise BadRequest(
                f"record_headers are set before anything is written, and namespace {self._journal.namespace} holds "
                "something: a reader could not tell its records from foreign ones; make another one; no setting was "
                "changed"
            )
