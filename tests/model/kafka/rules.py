"""Rules of the ledger on Kafka, each with the edit that removes it and the property that then breaks."""

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
    """A rule, named by the method that implements it. edit: removes the rule there."""

    owner: type | ModuleType
    method: str
    edit: Edit
    setup: Setup
    breaks: frozenset[str]


def rule(owner: type | ModuleType, method: str, edit: Edit, setup: Setup, *breaks: str) -> Rule:
    return Rule(owner, method, edit, setup, frozenset(breaks))


OWNERS = {
    "the list is read again after the start": rule(
        Ownership,
        "begin",
        delete("self._require_highest(...)"),
        SLEEPERS,
        "CHAIN",
    ),
    "a number is taken by only one gateway": rule(
        Ownership, "begin", replace("taken.holder != self._holder", "False"), SLEEPERS, "CHAIN"
    ),
    "the earlier producers are ended": rule(
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
    "a superseded gateway takes no number": rule(
        Ownership,
        "_take",
        delete("if self.generation:\n    ..."),
        SLEEPERS,
        "CHAIN",
    ),
    "an append in doubt is looked up before it is refused": rule(
        FrameWriter, "_decide", replace("not self.fold.holds(end)", "True"), FAULTS, "REFUSED"
    ),
    "an append in doubt is looked up before it is acknowledged": rule(
        FrameWriter, "_decide", replace("not self.fold.holds(end)", "False"), FAULTS, "DURABLE"
    ),
    "deleted records were replaced by an earlier commit": rule(
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
    "a witness is written after the commit": rule(
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
    "a commit without an answer is not reported as refused": rule(
        FrameWriter,
        "write",
        replace_statement("await self._read_on()", "raise await self._refusal(NotWritten('untold')) from None"),
        SENDERS,
        "REFUSED",
        "TWICE",
    ),
    "a stage is dropped after the frame that sends it": rule(
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
    "an opener drops no stage before its own frame": rule(
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
    "no location is returned for refused rows": rule(
        KafkaLedger,
        "_append",
        insert("self._fold.apply(changes)", after="self._suspend(...)"),
        SENDERS,
        "TOLD",
    ),
    "sent rows are named by a frame": rule(KafkaLedger, "_append", without("*sent"), SENDERS, "NAMED"),
    "a topic that brokers refuse is suspended": rule(
        KafkaLedger,
        "_suspend",
        replace("self.topics.suspend(refused, str(error.__cause__))", "self.topics.suspend((), str(error.__cause__))"),
        FAULTY_STANDBYS,
        "ALONE",
    ),
    "only the topic that brokers refuse is suspended": rule(
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
    "a hanging commit is healed by a commit": rule(
        Healing,
        "_decide",
        replace("self._brokers.write_commit_marker", "self._brokers.write_abort_marker"),
        FORGOTTEN,
        "UNDONE",
    ),
    "a hanging commit in users' topics is healed by a commit too": rule(
        UserPartitions,
        "_commit",
        replace("brokers.write_commit_marker", "brokers.write_abort_marker"),
        FORGOTTEN,
        "UNDONE",
    ),
    "a transaction with an unknown outcome is not healed": rule(
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
    "a late standby is not elected": rule(
        Election,
        "_elected",
        replace("self._next(listed) if (listed.holder, self._beat()) == self._seen else []", "self._next(listed)"),
        STANDBYS,
        "CHOSEN",
    ),
    "an owner that beats is not superseded": rule(
        Election,
        "_is_due",
        replace(
            ("not holder.gateway or (beat is not None and beat.gone) or now_s >= self._seen_s + self._takeover_s"),
            "True or now_s >= self._seen_s + self._takeover_s",
        ),
        STANDBYS,
        "CHOSEN",
    ),
    "a gateway that was not elected takes no generation": rule(
        Election,
        "lead",
        replace("self._stands_by or self._has_led or self._is_followed", "False"),
        STANDBYS,
        "CHOSEN",
    ),
    "entries after the last read are applied": rule(
        opening, "_read", delete("await _read_on(...)"), STANDBYS, "CHAIN", "KNOWN"
    ),
    "entries after the last read are returned": rule(
        Following,
        "_taken_over",
        replace("found.end.serial > serial + 1", "False"),
        STANDBYS,
        "KNOWN",
    ),
}
RULES = OWNERS | SENDING | STANDING_BY
# Rules of the engine; the walk has a gateway of its own for them.
SLEPT = dataclasses.replace(SLEEPING_STANDBYS, sleeping=0.002, dying=0.0, steps=1_500)
ENGINE = {
    "an absence is reported after an append": (dataclasses.replace(SLEEPERS, probing=False), "DENIED"),
    "a renewal is reported after an append": (
        dataclasses.replace(SLEEPING_STANDBYS, renewing=False, sleeping=0.002, dying=0.0, steps=1_500),
        "RENEWED",
    ),
    "an elected gateway answers once it owns the ledger": (dataclasses.replace(STANDBYS, fenced=False), "DENIED"),
}


def leave_out(monkeypatch: pytest.MonkeyPatch, left: Rule) -> None:
    """Replaces a method by its source without the rule."""
    module = left.owner if isinstance(left.owner, ModuleType) else sys.modules[left.owner.__module__]
    qualname = left.method if left.owner is module else f"{left.owner.__name__}.{left.method}"
    planted = left.edit.apply(Path(module.__file__ or "").read_text(), f"{module.__name__}::{qualname}")
    made: dict[str, Any] = dict(vars(module))
    exec(compile(planted, str(module.__file__), "exec"), made)
    made.update(in_place_of(module))
    found = made[left.method] if left.owner is module else getattr(made[left.owner.__name__], left.method)
    monkeypatch.setattr(left.owner, left.method, found)
