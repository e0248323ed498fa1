"""Rules of the ledger on Kafka, each with the edit that leaves it out, and what a walk breaks without it."""

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from oncegate.ledgers.kafka.markers.healing import Healing
from oncegate.ledgers.kafka.markers.user_partitions import UserPartitions
from oncegate.ledgers.kafka.shard import opening
from oncegate.ledgers.kafka.shard.ledger import KafkaLedger
from oncegate.ledgers.kafka.shard.ownership import Ownership
from oncegate.ledgers.kafka.shard.writer import FrameWriter
from oncegate.ledgers.server.election import Election
from oncegate.ledgers.server.following import Following
from tests.model.kafka.clients import in_place_of
from tests.model.kafka.walks import SETUPS
from tests.model.kafka.world import Setup
from tests.mutants.edits import Edit, delete, insert, replace, replace_statement, without

FAULTS, SLEEPERS = SETUPS["owners, faults"], SETUPS["owners, sleepers"]
LEADERLESS, FORGOTTEN = SETUPS["owners, partitions without leaders"], SETUPS["owners, forgotten markers"]
SENDERS, SENT_NOWHERE = SETUPS["senders, faults"], SETUPS["senders, partitions without leaders"]
STANDBYS, SLEEPING_STANDBYS = SETUPS["standbys"], SETUPS["standbys, sleepers"]
FAULTY_STANDBYS = SETUPS["standbys, faults"]
FORGOTTEN_STANDBYS = SETUPS["standbys, forgotten markers"]


@dataclass(frozen=True)
class Rule:
    """Names a rule by the method that keeps it. edit: leaves the rule out there."""

    owner: type | ModuleType
    method: str
    edit: Edit
    setup: Setup
    breaks: frozenset[str]


def rule(owner: type | ModuleType, method: str, edit: Edit, setup: Setup, *breaks: str) -> Rule:
    return Rule(owner, method, edit, setup, frozenset(breaks))


OWNERS = {
    "the list is read again behind the start": rule(
        Ownership,
        "begin",
        delete("self._require_highest(...)"),
        SLEEPERS,
        "CHAIN",
    ),
    "a number is taken by one": rule(
        Ownership, "begin", replace("taken.holder != self._holder", "False"), SLEEPERS, "CHAIN"
    ),
    "the producers before are ended": rule(
        Ownership,
        "begin",
        delete("await self._end_all(...)"),
        SLEEPERS,
        "CHAIN",
    ),
    "an id is not used again after an abort": rule(
        Ownership,
        "_id",
        replace("f'{self._name}/{generation}'", "f'{self._name}/1'"),
        FORGOTTEN_STANDBYS,
        "REFUSED",
        "TWICE",
        "UNDONE",
    ),
    "who was followed takes no number": rule(
        Ownership,
        "_take",
        delete("if self.generation:\n    ..."),
        SLEEPERS,
        "CHAIN",
    ),
    "an append in doubt is looked for before it is refused": rule(
        FrameWriter, "_decide", replace("not self.fold.holds(end)", "True"), FAULTS, "REFUSED"
    ),
    "an append in doubt is looked for before it is told": rule(
        FrameWriter, "_decide", replace("not self.fold.holds(end)", "False"), FAULTS, "DURABLE"
    ),
    "what is deleted was replaced by a commit before": rule(
        KafkaLedger,
        "_replace",
        insert(
            (
                "first = fold.first_after(mark.position) or (fold.last_offset + 1, 0)\n"
                "await shorten(self._place.settings, {self._place.frames: first[0]})"
            ),
            after=("compacted = self._compacted(mark, places, states_from, self._place.keys.wrap(self.key))"),
        ),
        SLEEPERS,
        "DELETED",
    ),
    "a witness is written behind the commit": rule(
        KafkaLedger,
        "_append",
        insert(
            (
                "end = self._fold.end\n"
                "seen = type(end)(end.serial + 1, end.position + len(entries), bytes(16))\n"
                "await self._list.witness(self._place.name, self.epoch, seen)"
            ),
            before="sending = ranges.batches(self._outputs.stages, self.topics, self._fold.end.serial)",
        ),
        SLEEPERS,
        "DAMAGED",
    ),
}
SENDING = {
    "what is committed and was told nowhere is no refusal": rule(
        FrameWriter,
        "write",
        replace_statement("await self._read_on()", "raise await self._refusal(NotWritten('untold')) from None"),
        SENDERS,
        "REFUSED",
        "TWICE",
    ),
    "a stage is given up behind the frame that sends it": rule(
        KafkaLedger,
        "_append",
        insert(
            (
                "sent = max((end_of(at) for at in ranges._waiting.values()), default=0)\n"
                "await shorten(self._place.settings, {self._place.stages: sent})"
            ),
            before="sending = ranges.batches(self._outputs.stages, self.topics, self._fold.end.serial)",
        ),
        SENDERS,
        "DELETED",
        "DAMAGED",
    ),
    "an opener gives up no stage before its own frame": rule(
        opening,
        "open_place",
        insert(
            (
                "from oncegate.ledgers.kafka.shard import ledger\n"
                "async with reader(place.settings) as found:\n"
                "    _, end = await found.bounds(place.stages)\n"
                "await ledger.shorten(place.settings, {place.stages: end})"
            ),
            after="require_key(...)",
        ),
        SENDERS,
        "DELETED",
        "DAMAGED",
    ),
    "no place is told of what was refused": rule(
        KafkaLedger,
        "_append",
        insert("self._fold.apply(changes)", after="self._suspend(...)"),
        SENDERS,
        "TOLD",
    ),
    "rows that are sent stand in a frame": rule(KafkaLedger, "_append", without("*sent"), SENDERS, "NAMED"),
    "a topic that brokers refuse is left alone": rule(
        KafkaLedger,
        "_suspend",
        replace("self.topics.suspend(refused, str(error.__cause__))", "self.topics.suspend((), str(error.__cause__))"),
        FAULTY_STANDBYS,
        "ALONE",
    ),
    "a topic that brokers refuse is left alone, and no other": rule(
        KafkaLedger,
        "_suspend",
        replace(
            "self.topics.suspend(refused, str(error.__cause__))",
            "self.topics.suspend(self.topics.counts, str(error.__cause__))",
        ),
        SENT_NOWHERE,
        "ALONE",
    ),
    "an owner that has lost a broker takes another producer": rule(
        FrameWriter,
        "_ready",
        replace("self._guard.is_worn", "self._guard.closed"),
        FORGOTTEN,
        "UNDONE",
    ),
    "what was committed is healed by a commit": rule(
        Healing,
        "_decide",
        replace("self._brokers.write_commit_marker", "self._brokers.write_abort_marker"),
        FORGOTTEN,
        "UNDONE",
    ),
    "what was committed is healed by a commit in users' topics too": rule(
        UserPartitions,
        "_commit",
        replace("brokers.write_commit_marker", "brokers.write_abort_marker"),
        FORGOTTEN,
        "UNDONE",
    ),
    "what nobody knows any more is not healed": rule(
        Healing,
        "_decide",
        replace("one.epoch + 1", "one.epoch + 9"),
        LEADERLESS,
        "CHAIN",
        "REFUSED",
        "WHOLE",
        "KNOWN",
    ),
}
STANDING_BY = {
    "a standby that was late is not chosen": rule(
        Election,
        "_elected",
        replace("self._next(listed) if (listed.holder, self._beat()) == self._seen else []", "self._next(listed)"),
        STANDBYS,
        "CHOSEN",
    ),
    "who beats is followed by nobody": rule(
        Election,
        "_is_due",
        replace(
            ("not holder.gateway or (beat is not None and beat.gone) or now_s >= self._seen_s + self._takeover_s"),
            "True or now_s >= self._seen_s + self._takeover_s",
        ),
        STANDBYS,
        "CHOSEN",
    ),
    "who was not chosen takes no generation": rule(
        Election,
        "lead",
        replace("self._stands_by or self._has_led or self._is_followed", "False"),
        STANDBYS,
        "CHOSEN",
    ),
    "what came after the last look is folded": rule(
        opening, "_read", delete("await _read_on(...)"), STANDBYS, "CHAIN", "KNOWN"
    ),
    "what came after the last look is given": rule(
        Following,
        "_taken_over",
        replace("found.end.serial > serial + 1", "False"),
        STANDBYS,
        "KNOWN",
    ),
}
RULES = OWNERS | SENDING | STANDING_BY
# What the engine keeps, of which a walk has a gateway of its own.
SLEPT = dataclasses.replace(SLEEPING_STANDBYS, sleeping=0.002, dying=0.0, steps=1_500)
ENGINE = {
    "an absence is told behind an append": (dataclasses.replace(SLEEPERS, probing=False), "DENIED"),
    "a renewal is told behind an append": (
        dataclasses.replace(SLEEPING_STANDBYS, renewing=False, sleeping=0.002, dying=0.0, steps=1_500),
        "RENEWED",
    ),
    "who was chosen answers once he owns the ledger": (dataclasses.replace(STANDBYS, fenced=False), "DENIED"),
}


def leave_out(monkeypatch: pytest.MonkeyPatch, left: Rule) -> None:
    """Puts the method in place as its file would have it without the rule."""
    module = left.owner if isinstance(left.owner, ModuleType) else sys.modules[left.owner.__module__]
    qualname = left.method if left.owner is module else f"{left.owner.__name__}.{left.method}"
    planted = left.edit.apply(Path(module.__file__ or "").read_text(), f"{module.__name__}::{qualname}")
    made: dict[str, Any] = dict(vars(module))
    exec(compile(planted, str(module.__file__), "exec"), made)
    made.update(in_place_of(module))
    found = made[left.method] if left.owner is module else getattr(made[left.owner.__name__], left.method)
    monkeypatch.setattr(left.owner, left.method, found)
