"""Draw the decision tables into ARCHITECTURE.md, between their markers.

python scripts/draw_tables.py           rewrite the file
python scripts/draw_tables.py --check   exit 1 when it is not what the tables say
"""

import re
import sys
from enum import IntEnum
from pathlib import Path

from oncegate.core.batches import COMMIT
from oncegate.core.decisions import CLAIM, SETTLE, Action, Asker, ClaimState, Effect, IdState, Verb
from oncegate.core.verdicts import VERDICTS

PAGE = Path(__file__).parent.parent / "ARCHITECTURE.md"


def words(member: IntEnum) -> str:
    return member.name.lower().replace("_", " ")


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def verdicts() -> str:
    rows = [
        [f"`{row.verdict.name}`", " ".join(f.name or "" for f in row.flags).lower(), row.number or "", row.meaning]
        for row in VERDICTS
    ]
    return table(["verdict", "flag", "number", "what to do"], rows)


def claim() -> str:
    head = ["state of the id", *(words(asker) for asker in Asker)]
    rows = [[words(s), *(words(CLAIM[s, a].action) for a in Asker)] for s in IdState]
    reasons = dict.fromkeys((cell.rule, cell.reason) for cell in CLAIM.values())
    return table(head, rows) + "\n\n" + "\n".join(f"- **{rule}**: {reason}" for rule, reason in reasons)


def settle() -> str:
    head = ["names a claim that is", *(words(verb) for verb in Verb)]
    rows = [[words(s), *(words(SETTLE[v, s].effect) for v in Verb)] for s in ClaimState]
    reasons = dict.fromkeys((cell.rule, cell.reason) for cell in SETTLE.values())
    return table(head, rows) + "\n\n" + "\n".join(f"- **{rule}**: {reason}" for rule, reason in reasons)


def commit() -> str:
    rows = [[str(i + 1), row.name, f"`{row.outcome.name}`", row.reason] for i, row in enumerate(COMMIT)]
    return table(["", "when", "outcome", "why"], rows)


def life() -> str:
    """An id's life as the claim and settle tables have it, as a state diagram."""
    after = {Action.GRANT: "CLAIMED", Action.GRANT_AGAIN: "CLAIMED", Action.TAKE_OVER: "CLAIMED"}
    group = {IdState.ABSENT: "ABSENT", IdState.DONE: "DONE"}
    edges: dict[tuple[str, str], list[str]] = {}
    for (state, _), cell in CLAIM.items():
        start = group.get(state, "CLAIMED")
        edges.setdefault((start, after.get(cell.action, start)), []).append(words(cell.action))
    effects = {Effect.MARK_DONE: "DONE", Effect.FREE: "ABSENT", Effect.EXTEND: "CLAIMED"}
    for (verb, state), cell2 in SETTLE.items():
        if state is ClaimState.OPEN:
            edges.setdefault(("CLAIMED", effects[cell2.effect]), []).append(words(verb))
    lines = [f"    {start} --> {end}: {', '.join(dict.fromkeys(labels))}" for (start, end), labels in edges.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> ABSENT", *lines, "```"])


DRAWINGS = {"verdicts": verdicts, "claim": claim, "settle": settle, "commit": commit, "life": life}


def draw(page: str) -> str:
    """`page` with every drawing made anew; KeyError when a marker is missing."""
    for name, drawing in DRAWINGS.items():
        pattern = re.compile(rf"(<!-- drawn: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not pattern.search(page):
            raise KeyError(f"no marker for {name}")
        page = pattern.sub(lambda found, d=drawing: found[1] + d() + "\n" + found[2], page)
    return page


def main() -> int:
    page = PAGE.read_text()
    drawn = draw(page)
    if "--check" in sys.argv:
        return int(drawn != page)
    PAGE.write_text(drawn)
    return 0


if __name__ == "__main__":
    sys.exit(main())
