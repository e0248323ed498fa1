"""Rules of the ledger's owners left out of the shipped code, one at a time: walks see each, and what breaks."""

import sys
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from oncegate.ledgers.kafka.shard.ledger import KafkaLedger
from oncegate.ledgers.kafka.shard.ownership import Ownership
from oncegate.ledgers.kafka.shard.writer import FrameWriter
from tests.model.kafka.clients import in_place_of, replace_clients
from tests.model.kafka.gateways import meet
from tests.model.kafka.walks import SETUPS
from tests.model.kafka.world import ALONE_STEPS, Setup, World
from tests.model.kit.outcome import breaks
from tests.model.kit.replies import Broken

# More steps than an opening and a first append take.
MOMENTS = 32
FAULTS, SLEEPERS = SETUPS["owners, faults"], SETUPS["owners, sleepers"]
LEADERLESS = SETUPS["owners, partitions without leaders"]
_WRITE = "            sending = ranges.batches(self._outputs.stages, self._topics, self._fold.end.serial)\n"
_REPLACE = "        offset = await self._write_dying(self._writer.write((), (), lambda _: [collected, *since]))\n"


@dataclass(frozen=True)
class Rule:
    """`old`: the line of the method's file that stands for the rule, and `new` what stands there without it."""

    owner: type
    method: str
    old: str
    new: str
    setup: Setup
    breaks: frozenset[str]


def rule(owner: type, method: str, old: str, new: str, setup: Setup, *breaks: str) -> Rule:
    return Rule(owner, method, old, new, setup, frozenset(breaks))


RULES = {
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
        LEADERLESS,
        "CHAIN",
        "REFUSED",
        "WHOLE",
        "REFUSED",
        "WHOLE",
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
        "            seen = Witness(end.serial + 1, end.position + len(entries), bytes(16))\n"
        "            await self._list.witness(self._place.name, self.epoch, seen)\n" + _WRITE,
        SLEEPERS,
        "DAMAGED",
    ),
}


@pytest.fixture(autouse=True)
def modelled(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_clients(monkeypatch)


def leave_out(monkeypatch: pytest.MonkeyPatch, left: Rule) -> None:
    """Puts the method in place as its file would have it without the rule."""
    module = sys.modules[left.owner.__module__]
    source = Path(module.__file__ or "").read_text()
    assert source.count(left.old) == 1, left.old
    made: dict[str, Any] = dict(vars(module))
    exec(compile(source.replace(left.old, left.new), str(module.__file__), "exec"), made)
    made.update(in_place_of(module))
    monkeypatch.setattr(left.owner, left.method, getattr(made[left.owner.__name__], left.method))


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_without_a_rule_a_walk_breaks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out(monkeypatch, RULES[name])
    assert breaks(RULES[name].setup) in RULES[name].breaks


@pytest.mark.slow
def test_every_pair_of_moments_at_which_two_gateways_take_turns_keeps_the_invariants() -> None:
    """All of them, of two gateways that open and write: where the first sleeps, and where the second does."""
    for first_steps, second_steps in product(range(MOMENTS), range(MOMENTS)):
        met(first_steps, second_steps)


def meet_everywhere() -> None:
    for first_steps in range(MOMENTS):
        met(first_steps, ALONE_STEPS)


def met(first_steps: int, second_steps: int) -> None:
    world = World(SETUPS["owners, without faults"], 1)
    world.run_as(lambda world: meet(world, first_steps, second_steps))


def test_a_pair_of_moments_breaks_where_the_list_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out(monkeypatch, RULES["the list is read again behind the start"])
    with pytest.raises(Broken, match="CHAIN"):
        meet_everywhere()


def test_an_owner_that_answers_from_memory_denies_what_another_has_acknowledged() -> None:
    assert breaks(replace(SLEEPERS, probing=False)) == "DENIED"
