"""Defines the verb `oncegate explain`, which shows the state of one id in a running gateway."""

import json
import sys
import urllib.parse
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from oncegate.cli.options import AsJsonOption, IdSetOption
from oncegate.cli.requests import HERE, RunningGateway, asking

IdArgument = Annotated[list[str], typer.Argument(help="The id; several words if the id has several columns.")]


@asking
def explain(
    id: IdArgument,
    gateway: RunningGateway = HERE,
    id_set: IdSetOption = "",
    as_json: AsJsonOption = False,
) -> None:
    """Explain an id: its state, its holder, since when, where it was written, and how long it is kept.

    Claimed ids are in the set "", ids of dedup in the set dedup.

    Example: oncegate explain --namespace flights --id-set departures 2013-01-01T05:00:00Z UA 1545
    """
    query = urllib.parse.urlencode([*(("id", part) for part in id), ("id_set", id_set)])
    body = gateway.text_about(f"/ids:explain?{query}")
    sys.stdout.write((body if as_json else "\n".join(_lines(json.loads(body)))) + "\n")


def _lines(answer: dict[str, Any]) -> list[str]:
    """Returns one line for each fact known about the id."""
    lines = [_STATES[answer["state"]], f'looked for in the set "{answer["id_set"]}"']
    if "claim" in answer:
        lines.append(f"claim {answer['claim']} of attempt {answer['token']}, call {answer['call']}")
    if "owner" in answer:
        lines.append(f"owner {answer['owner']} (a hash of its name)")
    if answer.get("takeover"):
        lines.append("granted by takeover: an earlier holder may have written it too")
    if "wall_ms" in answer:
        lines.append(f"since {when(answer['wall_ms'])}, position {answer['position']} of the ledger")
    if "lease_left_ms" in answer:
        lines.append(f"its lease runs {answer['lease_left_ms'] / 1000:.1f} s longer")
    if "topic" in answer:
        where = ", where is not known any more"
        if "partition" in answer:
            where = f", partition {answer['partition']}, at offset {answer['first_offset']} or behind it"
        lines.append(f"written to topic {answer['topic']}{where}")
    if answer.get("digest_kept"):
        lines.append("it came with a payload: with another one it is told CONFLICT, once it is done")
    if answer["state"] in {"DONE", "TAKEN"}:
        until = answer.get("kept_until_ms")
        lines.append(f"known until {when(until)} at least" if until else "known for ever")
    if "fingerprint" in answer:
        lines.append(f"records of duplicates name it {answer['fingerprint']}")
    return lines


_STATES = {
    "ABSENT": "ABSENT: never seen, released, or past the horizon; the next claim is granted",
    "CLAIMED_LIVE": "CLAIMED: an attempt may be writing it; others are told BUSY",
    "CLAIMED_OVER": "CLAIMED, its lease is over: the next claim takes it over, unless `lease_expiry` says otherwise",
    "DONE": "DONE: written; everybody is told DUPLICATE",
    "TAKEN": "TAKEN: it belongs to one owner; others are told DUPLICATE",
}


def when(wall_ms: int) -> str:
    """Formats wall-clock milliseconds in UTC, to the second."""
    return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
