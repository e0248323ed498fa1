"""Translates errors of the gateway for Spark users: adds the line of code that fixes them, and names options.

The gateway's errors name members of HTTP messages, but Spark users set options. Errors raised outside of Spark are not
translated.
"""

import re

from oncegate_spark.errors import OncegateError
from oncegate_spark.protocol.ids import ID_TYPES


def cast_line(name: str) -> str:
    """Returns advice on casting a column to a type that ids can have, for the end of an error message."""
    return f'ids are {ID_TYPES}; write df.withColumn("{name}", F.col("{name}").cast("string"))'


def text_line(name: str) -> str:
    """Returns advice on converting a column to a type that payloads can have."""
    return (
        f"payloads are {ID_TYPES}; write "
        f'df.withColumn("{name}_text", F.col("{name}").cast("string")), or F.to_json of a struct, and name that'
    )


def filter_line(error: OncegateError) -> str:
    """Returns the filter that removes rows with null or empty ids, if the error is about such rows; else ""."""
    names, lacking = error.extra.get("columns"), error.extra.get("lacking")
    if not isinstance(names, list) or lacking is None:
        return ""
    if lacking == "null":
        return f': df.where(F.col("{names[0]}").isNotNull())'
    some = " | ".join(f'(F.length("{name}") > 0)' for name in names)
    return f": df.where({some})"


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
# A single word may occur in any sentence; only in backquotes it is a member.
_MEMBER = re.compile("|".join(rf"\b{name}\b" if "_" in name else f"`{name}`" for name in OPTION_OF))


def in_options(text: str) -> str:
    """Replaces member names with option names."""
    return _MEMBER.sub(lambda match: OPTION_OF[match[0].strip("`")], text)
