"""Reads and changes the settings of a namespace; each change is one entry of the ledger."""

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
    """The settings of a namespace. topics_at: the external location of its topics; empty: the gateway's own ledger."""

    def __init__(self, journal: Journal, topics_at: str) -> None:
        self._journal = journal
        self._topics_at = topics_at

    async def configure(self, request: SettingsRequest, deadline: Deadline) -> None:
        """Changes the settings in the request; settings that are None stay unchanged. Durable when it returns.

        Raises BadRequest, LedgerFull, DeadlinePassed: nothing was changed; LedgerDown: effect unknown, retry.
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
        """Returns the current settings in the form of a ledger entry."""
        return self._journal.index.settings.in_force

    @property
    def horizon_ms(self) -> int:
        """Returns the retention of done ids in ms; 0 means for ever."""
        return self.in_force.horizon_ms

    @property
    def auto_create_topics(self) -> bool:
        """Returns whether the first write to a topic creates the topic."""
        return bool(self.in_force.auto_create_topics)

    @property
    def record_headers(self) -> bool:
        """Returns whether records in external topics carry headers that identify their writer."""
        return bool(self.in_force.record_headers)

    @property
    def lease_expiry(self) -> LeaseExpiry:
        """Returns the policy for ids with an expired lease."""
        return LeaseExpiry(self.in_force.lease_expiry)

    @property
    def id_time(self) -> IdTime:
        """Returns the format in which ids carry their creation time."""
        return IdTime(self.in_force.id_time)

    @property
    def shadow(self) -> bool:
        """Returns whether every verdict is reported as GRANTED, with the real verdict in addition."""
        return bool(self.in_force.shadow)

    @property
    def on_ledger_down(self) -> OnLedgerDown:
        """Returns the policy for claims while the ledger is down."""
        return OnLedgerDown(self.in_force.on_ledger_down)

    @property
    def policies(self) -> dict[str, str]:
        """Returns the settings that change verdicts, by name; omits settings at their default."""
        told = {"lease_expiry": self.lease_expiry.name.lower()} if self.lease_expiry else {}
        told |= {"id_time": self.id_time.name.lower()} if self.id_time else {}
        told |= {"on_ledger_down": self.on_ledger_down.name.lower()} if self.on_ledger_down else {}
        return told | ({"shadow": "every verdict is told as GRANTED"} if self.shadow else {})

    @property
    def lowering(self) -> tuple[bool, bool]:
        """Returns two flags that weaken the promises: shadow mode is on, and claims pass while the ledger is down."""
        return self.shadow, self.on_ledger_down is OnLedgerDown.PASS_MARKED

    @property
    def read_time(self) -> ReadTimes | None:
        """Returns the function that reads creation times from ids; None if ids carry none."""
        return READ_TIMES[self.id_time]

    def _check_horizon(self, horizon_ms: int) -> None:
        if 0 < horizon_ms < self._journal.limits.horizon_ms_min:
            raise BadRequest(
                f"a horizon of {horizon_ms} ms: at least {self._journal.limits.horizon_ms_min}, for a retry may "
                "come as late as a lease and its repeats, or 0 to keep ids for ever"
            )

    def _check_record_headers(self, wanted: bool) -> None:
        """Raises BadRequest if topics are not external or the namespace is not empty."""
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
