"""The gateway's words in the options' words: an error over HTTP names members of its messages, a user set options."""

import re

OPTION_OF = {
    "app": "txnAppId",
    "version": "txnVersion",
    "write_id": "writeId",
    "on_replay_mismatch": "onReplayMismatch",
    "id_col": "idCol",
    "id_set": "idSet",
    "key_col": "keyCol",
    "digest_col": "digestCols",
    "sequence_col": "sequenceCol",
    "lease_ms": "leaseMs",
}
# One word alone may be any word: as a member it stands in backquotes.
_MEMBER = re.compile("|".join(rf"\b{name}\b" if "_" in name else f"`{name}`" for name in OPTION_OF))


def in_options(text: str) -> str:
    """Names options where the gateway's text names members."""
    return _MEMBER.sub(lambda match: OPTION_OF[match[0].strip("`")], text)
