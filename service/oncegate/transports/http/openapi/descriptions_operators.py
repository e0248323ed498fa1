"""Descriptions of operators' messages in the OpenAPI document; `descriptions` puts them beside the rest."""

_WHO = "who asks, where no credential says it; beside one it stands in brackets"
_WHY = "for whoever reads the trail"
MEMBERS: dict[str, dict[str, str]] = {
    "ForgetRequest": {"who": _WHO, "why": _WHY, "id_set": "the set the ids are of; rows' ids: their topic's name"},
    "ForgetAllRequest": {
        "who": _WHO,
        "why": _WHY,
        "id_set": "the set; empty: that of claims",
        "confirm": "the set's name once more",
        "token": "128 random bits as hex: a repeat under it forgets nothing more",
    },
    "ForgetAllReply": {"id_set": "the set that was forgotten", "times": "how often the set was forgotten by now"},
    "ForgetReply": {"forgotten": "each once; the others were not known"},
    "ImportReply": {"imported": "each once; the others were known here already"},
    "FenceRequest": {"who": _WHO, "why": _WHY},
    "FenceReply": {"producer": "as in the path", "epoch": "nobody's; the next to register has a greater one"},
    "DrainRequest": {"draining": "false: take new work again", "who": _WHO, "why": _WHY},
    "GatewayReply": {
        "draining": "new work is refused",
        "who": "who drained it; empty: nobody has",
        "why": "what they said; empty: nobody has",
        "open": "by namespace what is not finished: open_claims, stages",
    },
    "NoteReply": {"who": "the name of the credential, or what the caller said"},
    "NoteRequest": {"action": "what begins", "subject": "what it is done to", "who": _WHO, "why": _WHY},
    "AuditMessage": {
        "position": "of its entry in the ledger",
        "wall_ms": "when, by the gateway's clock",
        "action": "forget, import, replay, fence, drain, drain --undo, release, resolve done, resolve not-done; by "
        "policies: pass unchecked, write spilled rows",
        "subject": "what it was done to; empty: all of it",
        "changed": "how many ids, sequences or rows; of a fenced producer its epoch; 0: a replay, which is noted first",
        "who": "the name of the credential, or what the caller said",
        "why": "what the caller said",
    },
    "ProducerSummary": {
        "producer": "its name",
        "driver": "who owns its retries",
        "epoch": "of the newest registration",
        "claimed_to": "the highest sequence that was ever claimed; null: none was",
        "watermark": "everything up to it is STALE for ever; null: nothing was acked yet",
        "unacked": "how far the watermark is behind what was claimed",
        "lease_left_ms": "0: whoever registers next has it",
    },
    "ProducersReply": {"producers": "by the newest entry of each", "total": "how many there are"},
    "LeftClaim": {
        "claim": "its name, for resolve",
        "token": "the attempt that holds it",
        "call": "of the attempt",
        "ids": "how many it still holds",
        "over_ms": "for how long its lease has been over; after a restart, since a full lease from then",
        "wall_ms": "when it was granted",
    },
    "LeftClaimsReply": {"claims": "the longest first", "total": "how many there are"},
    "AuditReply": {"actions": "of the newest 10,000, a page", "next": "`before` of the page behind; null: no more"},
}
