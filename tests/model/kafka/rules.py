"""Rules of the ledger on Kafka, each with the line that stands for it, and what a walk breaks without it."""

import sys
from dataclasses import dataclass, replace
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
from oncegate.ledgers.remote.election import Election
from oncegate.ledgers.remote.following import Following
from tests.model.kafka.clients import in_place_of
from tests.model.kafka.walks import SETUPS
from tests.model.kafka.world import Setup

FAULTS, SLEEPERS = SETUPS["owners, faults"], SETUPS["owners, sleepers"]
LEADERLESS, FORGOTTEN = SETUPS["owners, partitions without leaders"], SETUPS["owners, forgotten markers"]
SENDERS, SENT_NOWHERE = SETUPS["senders, faults"], SETUPS["senders, partitions without leaders"]
STANDBYS, SLEEPING_STANDBYS = SETUPS["standbys"], SETUPS["standbys, sleepers"]
FAULTY_STANDBYS = SETUPS["standbys, faults"]
FORGOTTEN_STANDBYS = SETUPS["standbys, forgotten markers"]
_WRITE = "            sending = ranges.batches(self._outputs.stages, self._topics, self._fold.end.serial)\n"
_REPLACE = "        offset = await self._write_dying(self._writer.write((), (), lambda _: [compacted, *since]))\n"


@dataclass(frozen=True)
class Rule:
    """`old`: the line of the method's file that stands for the rule, and `new` what stands there without it."""

    owner: type | ModuleType
    method: str
    old: str
    new: str
    setup: Setup
    breaks: frozenset[str]


def rule(owner: type | ModuleType, method: str, old: str, new: str, setup: Setup, *breaks: str) -> Rule:
    return Rule(owner, method, old, new, setup, frozenset(breaks))


OWNERS = {
    "the list is read again behind the start": rule(
        Ownership,
        "begin",
        "            self._require_highest(self._list.listed)\n        except",
        "            pass\n        except",
        SLEEPERS,
        "CHAIN",
    ),
    "a number is taken by one": rule(
        Ownership, "begin", "        if taken.holder != self._holder:\n", "        if False:\n", SLEEPERS, "CHAIN"
    ),
    "the producers before are ended": rule(
        Ownership,
        "begin",
        "        await self._end_all(range(max(taken.proved, 1), taken.highest))\n",
        "",
        SLEEPERS,
        "CHAIN",
    ),
    "an id is not used again after an abort": rule(
        Ownership,
        "_id",
        'return f"{self._name}/{generation}"',
        'return f"{self._name}/1"',
        FORGOTTEN_STANDBYS,
        "REFUSED",
        "TWICE",
        "UNDONE",
    ),
    "who was followed takes no number": rule(
        Ownership,
        "_take",
        "        if self.generation:\n            self._require_highest(listed)\n",
        "",
        SLEEPERS,
        "CHAIN",
    ),
    "an append in doubt is looked for before it is refused": rule(
        FrameWriter, "_decide", "        if not self.fold.holds(end):\n", "        if True:\n", FAULTS, "REFUSED"
    ),
    "an append in doubt is looked for before it is told": rule(
        FrameWriter, "_decide", "        if not self.fold.holds(end):\n", "        if False:\n", FAULTS, "DURABLE"
    ),
    "what is deleted was replaced by a commit before": rule(
        KafkaLedger,
        "_replace",
        _REPLACE,
        "        first = fold.first_after(mark.position) or (fold.last_offset + 1, 0)\n"
        "        await shorten(self._place.settings, {self._place.frames: first[0]})\n" + _REPLACE,
        SLEEPERS,
        "DELETED",
    ),
    "a witness is written behind the commit": rule(
        KafkaLedger,
        "_append",
        _WRITE,
        "            end = self._fold.end\n"
        "            seen = type(end)(end.serial + 1, end.position + len(entries), bytes(16))\n"
        "            await self._list.witness(self._place.name, self.epoch, seen)\n" + _WRITE,
        SLEEPERS,
        "DAMAGED",
    ),
}
SENDING = {
    "what is committed and was told nowhere is no refusal": rule(
        FrameWriter,
        "write",
        "            await self._read_on()\n            return None\n        self._require_grown(offset)",
        "            raise await self._refusal(NotWritten('untold')) from None\n        self._require_grown(offset)",
        SENDERS,
        "REFUSED",
        "TWICE",
    ),
    "a stage is given up behind the frame that sends it": rule(
        KafkaLedger,
        "_append",
        _WRITE,
        "            sent = max((end_of(at) for at in ranges._waiting.values()), default=0)\n"
        "            await shorten(self._place.settings, {self._place.stages: sent})\n" + _WRITE,
        SENDERS,
        "DELETED",
        "DAMAGED",
    ),
    "an opener gives up no stage before its own frame": rule(
        opening,
        "open_place",
        "            read_to = await _own(",
        "            from oncegate.ledgers.kafka.shard import ledger\n"
        "            async with reader(place.settings) as found:\n"
        "                _, end = await found.bounds(place.stages)\n"
        "            await ledger.shorten(place.settings, {place.stages: end})\n"
        "            read_to = await _own(",
        SENDERS,
        "DELETED",
        "DAMAGED",
    ),
    "no place is told of what was refused": rule(
        KafkaLedger,
        "_append",
        "                self._suspend(error)\n",
        "                self._suspend(error)\n                self._fold.apply(changes)\n",
        SENDERS,
        "TOLD",
    ),
    "rows that are sent stand in a frame": rule(
        KafkaLedger, "_append", "return [*changes, *sent]\n", "return [*changes]\n", SENDERS, "NAMED"
    ),
    "a topic that brokers refuse is left alone": rule(
        KafkaLedger,
        "_suspend",
        "            self._topics.suspend(refused, ",
        "            self._topics.suspend((), ",
        FAULTY_STANDBYS,
        "ALONE",
    ),
    "a topic that brokers refuse is left alone, and no other": rule(
        KafkaLedger,
        "_suspend",
        "            self._topics.suspend(refused, ",
        "            self._topics.suspend(self._topics.counts, ",
        SENT_NOWHERE,
        "ALONE",
    ),
    "an owner that has lost a broker takes another producer": rule(
        FrameWriter,
        "_ready",
        "        if self._guard.is_worn:\n",
        "        if self._guard.closed:\n",
        FORGOTTEN,
        "UNDONE",
    ),
    "what was committed is healed by a commit": rule(
        Healing,
        "_decide",
        "            await self._brokers.write_commit_marker(one)\n",
        "            await self._brokers.write_abort_marker(one)\n",
        FORGOTTEN,
        "UNDONE",
    ),
    "what was committed is healed by a commit in users' topics too": rule(
        UserPartitions,
        "_commit",
        "            await brokers.write_commit_marker(one)\n",
        "            await brokers.write_abort_marker(one)\n",
        FORGOTTEN,
        "UNDONE",
    ),
    "what nobody knows any more is not healed": rule(
        Healing,
        "_decide",
        "        if state.producer_id != one.producer_id or state.epoch > one.epoch + 1:\n",
        "        if state.producer_id != one.producer_id or state.epoch > one.epoch + 9:\n",
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
        "return self._next(listed) if (listed.holder, self._beat()) == self._seen else []",
        "return self._next(listed)",
        STANDBYS,
        "CHOSEN",
    ),
    "who beats is followed by nobody": rule(
        Election,
        "_is_due",
        "return not holder.gateway or (beat is not None and beat.gone) or",
        "return True or",
        STANDBYS,
        "CHOSEN",
    ),
    "who was not chosen takes no generation": rule(
        Election,
        "lead",
        "        if self._stands_by or self._has_led or self._is_followed:\n",
        "        if False:\n",
        STANDBYS,
        "CHOSEN",
    ),
    "what came after the last look is folded": rule(
        opening, "_read", "            await _read_on(place, warm)\n", "", STANDBYS, "CHAIN", "KNOWN"
    ),
    "what came after the last look is given": rule(
        Following,
        "_taken_over",
        "        if found.end.serial > serial + 1:\n",
        "        if False:\n",
        STANDBYS,
        "KNOWN",
    ),
}
RULES = OWNERS | SENDING | STANDING_BY
# What the engine keeps, of which a walk has a gateway of its own.
SLEPT = replace(SLEEPING_STANDBYS, sleeping=0.002, dying=0.0, steps=1_500)
ENGINE = {
    "an absence is told behind an append": (replace(SLEEPERS, probing=False), "DENIED"),
    "a renewal is told behind an append": (
        replace(SLEEPING_STANDBYS, renewing=False, sleeping=0.002, dying=0.0, steps=1_500),
        "RENEWED",
    ),
    "who was chosen answers once he owns the ledger": (replace(STANDBYS, fenced=False), "DENIED"),
}


def leave_out(monkeypatch: pytest.MonkeyPatch, left: Rule) -> None:
    """Puts the method in place as its file would have it without the rule."""
    module = left.owner if isinstance(left.owner, ModuleType) else sys.modules[left.owner.__module__]
    source = Path(module.__file__ or "").read_text()
    assert source.count(left.old) == 1, left.old
    made: dict[str, Any] = dict(vars(module))
    exec(compile(source.replace(left.old, left.new), str(module.__file__), "exec"), made)
    made.update(in_place_of(module))
    found = made[left.method] if left.owner is module else getattr(made[left.owner.__name__], left.method)
    monkeypatch.setattr(left.owner, left.method, found)
