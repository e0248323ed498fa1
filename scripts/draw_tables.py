"""Writes tables from the code into pages of docs/, between their markers.

python -m scripts.draw_tables           rewrite the pages
python -m scripts.draw_tables --check   exit 1 if a page differs from the code; nothing is written
"""

import re
import sys
from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any

from oncegate.core.acks import ACK_BATCH, ACK_NUMBER, RESOLVE, Leftover, LeftoverOutcome
from oncegate.core.batches import COMMIT
from oncegate.core.causes import CAUSES, STAGE_ATTEMPT, Relation
from oncegate.core.cells import Cell
from oncegate.core.claims import (
    CLAIM,
    EXPIRED,
    LOOK_UP,
    PRODUCE,
    SETTLE,
    TAKE,
    Action,
    Asker,
    ClaimState,
    Effect,
    IdState,
    LeaseExpiry,
    Verb,
    tables,
)
from oncegate.core.direct import ASK, ENTER, TRIM, ReadProgress, RecordState
from oncegate.core.lifecycle import AFTER, ENDS, ROWS, WHILE, Event, State
from oncegate.core.operator_actions import FORGET, IMPORT
from oncegate.core.producers import (
    ACK,
    ASKERS,
    DRIVER,
    GAP,
    LEFT_BEHIND,
    PRODUCER,
    REGISTER_DRIVER,
    REGISTER_PRODUCER,
    SEQUENCE,
    SOURCE,
    Gaps,
    Registrant,
    SequenceState,
    Standing,
)
from oncegate.core.producers import ProducerAsker as SequenceAsker
from oncegate.core.verdicts import VERDICTS
from scripts.reference_tables import (
    by_label,
    calls,
    counters,
    metrics,
    settings,
    spark_habits,
    spark_options,
    spark_promises,
    table,
    verbs,
)

FreeIds = dict[tuple[IdState, Asker], Cell[Action]]
# Words for the relation between a field of one writer and that of the first.
_SAID = {
    Relation.NEITHER: "named by neither",
    Relation.SAME: "the same",
    Relation.ONE: "named by one alone",
    Relation.OTHER: "another",
    Relation.OLDER: "older",
    Relation.NEWER: "newer",
}
VERBS: dict[str, tuple[FreeIds, str]] = {
    "claim": (CLAIM, "CLAIMED"),
    "produce": (PRODUCE, "DONE"),
    "take": (TAKE, "TAKEN"),
}
DOCS = Path(__file__).parent.parent / "docs"


def words(member: IntEnum) -> str:
    """Returns a member's name as words: "grant again" for GRANT_AGAIN."""
    return words_of(member.name)


def verdicts() -> str:
    """Draws the verdicts and the caller's action for each."""
    rows = [
        [f"`{row.verdict.name}`", " ".join(f.name or "" for f in row.flags).lower(), row.number or "", row.meaning]
        for row in VERDICTS
    ]
    return table(["verdict", "flag", "number", "what to do"], rows)


def free_ids(decisions: FreeIds) -> str:
    """Draws the decisions on free ids, by state and asker, with each rule's reason."""
    head = ["state of the id", *(words(asker) for asker in Asker)]
    rows = [[words(s), *(words(decisions[s, a].effect) for a in Asker)] for s in IdState]
    return table(head, rows) + because(*decisions.values())


def expired() -> str:
    """Draws the decisions on ids with an expired lease, by the namespace's setting, and on abandoned sequences."""
    head = ["lease_expiry", "asked by", *(words(asker) for asker in Asker)]
    over = IdState.CLAIMED_OVER
    rows = [
        [f"`{expiry.name.lower()}`", verb, *(words(tables(expiry)[verb][over, asker].effect) for asker in Asker)]
        for expiry in LeaseExpiry
        for verb in VERBS
    ]
    of_ids = [cell for by_verb in EXPIRED.values() for table in by_verb.values() for cell in table.values()]
    of_sequences = [cell for table in LEFT_BEHIND.values() for cell in table.values()]
    return table(head, rows) + because(*of_ids, *of_sequences)


def settle() -> str:
    """Draws the effect of renew, complete and release, by the claim's state."""
    head = ["names a claim that is", *(words(verb) for verb in Verb)]
    rows = [[words(s), *(words(SETTLE[v, s].effect) for v in Verb)] for s in ClaimState]
    return table(head, rows) + because(*SETTLE.values())


def commit() -> str:
    """Draws the decision rows of a commit, in order."""
    rows = [[str(i + 1), row.name, f"`{row.outcome.name}`", row.reason] for i, row in enumerate(COMMIT)]
    return table(["", "when", "outcome", "why"], rows)


def because(*cells: Any) -> str:
    """Lists each rule once, with its reason."""
    reasons = dict.fromkeys((cell.rule, cell.reason) for cell in cells)
    return "\n\n" + "\n".join(f"- **{rule}**: {reason}" for rule, reason in reasons)


def two(head: list[str], first: dict[Any, Any], second: dict[Any, Any], members: Iterable[IntEnum]) -> str:
    """Draws two tables with the same rows side by side."""
    pairs = [[first.get(member), second.get(member)] for member in members]
    rows = [
        [words(member), *(words(cell.effect) if cell else "" for cell in cells)]
        for member, cells in zip(members, pairs, strict=True)
    ]
    return table(head, rows) + because(*first.values(), *second.values())


def sequence() -> str:
    """Draws the decisions on a sequence; impossible cells are empty."""
    head = ["state of the sequence", *(words(asker) for asker in SequenceAsker)]
    rows = [
        [words(s), *(words(SEQUENCE[s, a].effect) if a in ASKERS[s] else "" for a in SequenceAsker)]
        for s in SequenceState
    ]
    return table(head, rows) + because(*SEQUENCE.values())


def effects(head: str, cells: dict[Any, Any]) -> str:
    """Draws a table with the effect of each state."""
    return table([head, "effect"], [[words(s), words(cell.effect)] for s, cell in cells.items()]) + because(
        *cells.values()
    )


def resolve() -> str:
    """Draws the effect of resolving a leftover, by the operator's finding."""
    rows = [[words(s), *(words(RESOLVE[s, finding].effect) for finding in LeftoverOutcome)] for s in Leftover]
    return table(["what is found", *(words(finding) for finding in LeftoverOutcome)], rows) + because(*RESOLVE.values())


def importing() -> str:
    """Draws the effect of importing an id, by its state in this ledger."""
    rows = [
        [words(action), "taken" if is_taken else "done", words(cell.effect)]
        for (action, is_taken), cell in IMPORT.items()
    ]
    return table(["told here", "there it is", "effect"], rows) + because(*IMPORT.values())


def causes() -> str:
    """Draws the causes of duplicates, by the two writers, in order; then the fields that identify a stage's attempt."""
    said = {None: "", False: ", one attempt at a time", True: ", attempts side by side"}
    rows = [
        [
            str(i + 1),
            f"{words(row.field)} {_SAID[row.relation]}{said[row.speculates]}",
            f"`{words_of(row.cause.name).replace(' ', '_')}`",
            row.reason,
        ]
        for i, row in enumerate(CAUSES)
    ]
    stages = [
        [_SAID[serial], _SAID[attempt], _SAID[told_stage]] for (serial, attempt), told_stage in STAGE_ATTEMPT.items()
    ]
    return "\n\n".join(
        (
            table(["", "the first that fits", "cause", "why"], rows),
            "Where neither names its stage's attempt, `serial` and `attempt` tell it; else they tell nothing of it:",
            table(["serial", "attempt", "stage attempt"], stages),
        )
    )


def gap() -> str:
    """Draws when a claim of sequences is checked for a gap."""
    rows = [[words(gaps), *(words(GAP[gaps, named].effect) for named in (False, True))] for gaps in Gaps]
    return table(["gaps", "`prev_sequence` is not named", "is named"], rows) + because(*GAP.values())


def ask_lane() -> str:
    """Draws the answers about sequences that a client may have written to Kafka itself."""
    rows = [
        [words(record), *(words(ASK[record, reading].effect) for reading in ReadProgress)] for record in RecordState
    ]
    return table(["its record", *(words(reading) for reading in ReadProgress)], rows) + because(*ASK.values())


def life() -> str:
    """Draws the life of an id, a row per transition; done and taken ids expire after the horizon."""
    group = {IdState.CLAIMED_LIVE: "CLAIMED", IdState.CLAIMED_OVER: "CLAIMED"}
    edges: dict[tuple[str, str], list[str]] = {}
    for verb, (decisions, granted) in VERBS.items():
        phrases = {Action.GRANT: verb, Action.TAKE_OVER: f"taken over by {verb}"}
        for (state, _), cell in decisions.items():
            start = group.get(state, state.name)
            end, label = (granted, phrases[cell.effect]) if cell.effect in phrases else (start, words(cell.effect))
            edges.setdefault((start, end), []).append(label)
    effects = {Effect.MARK_DONE: "DONE", Effect.FREE: "ABSENT", Effect.EXTEND: "CLAIMED"}
    for (settling, state), settled in SETTLE.items():
        if state is ClaimState.OPEN:
            edges.setdefault(("CLAIMED", effects[settled.effect]), []).append(words(settling))
    edges |= {("DONE", "ABSENT"): ["retire"], ("TAKEN", "ABSENT"): ["retire"]}
    rows = [
        [words_of(start), words_of(end), ", ".join(dict.fromkeys(labels))] for (start, end), labels in edges.items()
    ]
    return table(["from", "to", "by"], rows)


def lifecycle() -> str:
    """Draws the next state of a namespace, by event; an empty cell means no change."""
    rows = [
        [words(event), *("" if (after := AFTER[s, event].effect) is s else words(after) for s in State)]
        for event in Event
    ]
    return table(["event", *map(words, State)], rows) + because(*AFTER.values())


def lifecycle_ends() -> str:
    """Draws the responses to callers in flight and waiting at an event, and when the ledger is reopened."""
    rows = [
        [words(event), *map(words, cell.effect[:3]), "yes" * cell.effect.is_down, cell.rule, cell.reason]
        for event, cell in ENDS.items()
    ]
    head = ["event", "in flight", "waiting", "opened again", "the ledger is down", "rule", "reason"]
    return table(head, rows)


def lifecycle_rows() -> str:
    """Draws the responses to new callers in each state, and the condition that leads to it."""
    while_ = {cell.effect: condition for (_, condition), cell in WHILE.items()}
    rows = [
        [
            words(state),
            words(while_[state]) if state in while_ else "",
            words(cell.effect.callers),
            f"`{cell.effect.shown}`",
            cell.rule,
            cell.reason,
        ]
        for state, cell in ROWS.items()
    ]
    return table(["state", "while", "new callers", "shown as", "rule", "reason"], rows) + because(*WHILE.values())


def words_of(state: str) -> str:
    """Returns a name in capitals as words."""
    return state.lower().replace("_", " ")


DECISIONS: dict[str, Callable[[], str]] = {
    "verdicts": verdicts,
    **{verb: partial(free_ids, decisions) for verb, (decisions, _) in VERBS.items()},
    "look-up": partial(free_ids, LOOK_UP),
    "expired": expired,
    "settle": settle,
    "commit": commit,
    "life": life,
    "register": partial(
        two, ["who registers", "a producer", "a driver"], REGISTER_PRODUCER, REGISTER_DRIVER, Registrant
    ),
    "source": partial(effects, "the source that is brought", SOURCE),
    "entrance": partial(two, ["epoch and token", "who claims, settles", "who acks"], PRODUCER, DRIVER, Standing),
    "sequence": sequence,
    "gap": gap,
    "ack": partial(effects, "state", ACK),
    "ack number": partial(effects, "the ack's batch, to the last that was acked", ACK_NUMBER),
    "resolve": resolve,
    "import": importing,
    "forget": partial(effects, "told as", FORGET),
    "ask lane": ask_lane,
    "enter": partial(effects, "a record that was read", ENTER),
    "trim lanes": partial(effects, "its entry", TRIM),
    "ack batch": partial(effects, "a batch up to the ack's", ACK_BATCH),
    "lifecycle": lifecycle,
    "lifecycle ends": lifecycle_ends,
    "lifecycle rows": lifecycle_rows,
}


# The drawings of each page, by marker.
PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "decisions.md": DECISIONS,
    "spark-options.md": {"options": spark_options, "habits": spark_habits},
    "spark-guide.md": {"promises": spark_promises},
    "http-guide.md": {"calls": calls},
    "settings.md": {"settings": settings},
    "operations.md": {"verbs": verbs},
    "operations/observe.md": {"counters": counters},
    "metrics.md": {
        "metrics": metrics,
        "verdicts": partial(by_label, "verdict"),
        "causes": partial(by_label, "cause"),
        "writers": causes,
    },
}


def draw(page: str, drawings: dict[str, Callable[[], str]]) -> str:
    """Returns `page` with every drawing updated. Raises KeyError if a marker is missing."""
    for name, drawing in drawings.items():
        pattern = re.compile(rf"(<!-- drawn: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not pattern.search(page):
            raise KeyError(f"no marker for {name}")
        page = pattern.sub(lambda match, d=drawing: match[1] + d() + "\n" + match[2], page)
    return page


def stale() -> dict[str, str]:
    """Returns the pages that differ from the code, with their correct text."""
    drawn = {name: draw((DOCS / name).read_text(), drawings) for name, drawings in PAGES.items()}
    return {name: text for name, text in drawn.items() if text != (DOCS / name).read_text()}


def main() -> int:
    """Rewrites stale pages, or with `--check` prints their names; returns the exit status."""
    pages = stale()
    for name, text in pages.items():
        if "--check" in sys.argv:
            sys.stdout.write(f"docs/{name} is stale: make generate\n")
        else:
            (DOCS / name).write_text(text)
    return int(bool(pages) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
