"""The oracle of every fault test: compares the answers that writers got with the output that can be read.

    O1 no loss       every id that was written and completed, or answered DUPLICATE, is in the output
    O2 no duplicate  no id is in the output more than once, beyond the allowed copies
    O3 no phantom    every record of the output was attempted with exactly that content, by an attempt not refused

A verdict has three values: an unanswered attempt is UNKNOWN, never failed. Imports nothing of the index.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum


class AttemptAnswer(Enum):
    """The outcome of one attempt for one id, as far as the attempt knows it."""

    WRITTEN = "written"  # granted, written, completed, acknowledged
    DUPLICATE = "duplicate"  # the gateway promised that it is there
    REFUSED = "refused"  # definitely not written by this attempt
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Attempted:
    """One attempt at one id, with the content that it would write."""

    id: bytes
    content: bytes
    said: AttemptAnswer


@dataclass
class OracleReport:
    """Ids that break a promise, one list per promise; a list is empty if its promise was kept.
    copies: number of records beyond the first of each
    id."""

    lost: list[bytes] = field(default_factory=list)
    duplicated: list[bytes] = field(default_factory=list)
    phantoms: list[bytes] = field(default_factory=list)
    copies: int = 0
    attempts: int = 0
    records: int = 0

    def check(self, copies_allowed: int = 0) -> "OracleReport":
        """Raises AssertionError naming the first ids that break a promise. copies_allowed: takeovers counted
        elsewhere."""
        assert not self.lost, f"O1: {len(self.lost)} lost, first {self.lost[:5]}"
        assert self.copies <= copies_allowed, (
            f"O2: {self.copies} copies, {copies_allowed} allowed, first {self.duplicated[:5]}"
        )
        assert not self.phantoms, f"O3: {len(self.phantoms)} phantoms, first {self.phantoms[:5]}"
        return self


def judge(attempts: Iterable[Attempted], output: Iterable[tuple[bytes, bytes]]) -> OracleReport:
    """Compares the attempts' answers with the output's (id, content) records, which must be read independently of
    them."""
    report = OracleReport()
    promised: set[bytes] = set()
    contents: dict[bytes, set[bytes]] = defaultdict(set)
    for attempt in attempts:
        report.attempts += 1
        if attempt.said in (AttemptAnswer.WRITTEN, AttemptAnswer.DUPLICATE):
            promised.add(attempt.id)
        if attempt.said is not AttemptAnswer.REFUSED:
            contents[attempt.id].add(attempt.content)
    counted: Counter[bytes] = Counter()
    for id_, content in output:
        report.records += 1
        counted[id_] += 1
        if content not in contents[id_]:
            report.phantoms.append(id_)
    report.lost = sorted(id_ for id_ in promised if not counted[id_])
    report.duplicated = sorted(id_ for id_, count in counted.items() if count > 1)
    report.copies = sum(count - 1 for count in counted.values())
    return report
