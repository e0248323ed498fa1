"""Makes errors of the gateway readable in Spark: lines of code that mend them, and the names of options.

An error over HTTP names members of its messages; the user set options. Errors outside of Spark have neither.
"""

import re

from oncegate_spark.errors import OncegateError
from oncegate_spark.protocol.ids import ID_TYPES


def cast_line(name: str) -> str:
    """Returns the line that makes an id of a column of another type, for the end of an error's text."""
    return f'ids are {ID_TYPES}; write df.withColumn("{name}", F.col("{name}").cast("string"))'


def text_line(name: str) -> str:
    """Returns the line that makes of a column one that payloads can be known by."""
    return (
        f"payloads are {ID_TYPES}; write "
        f'df.withColumn("{name}_text", F.col("{name}").cast("string")), or F.to_json of a struct, and name that'
    )


def filter_line(error: OncegateError) -> str:
    """Returns the filter that leaves out rows whose ids are null or empty, where the error is about these; else ""."""
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
# One word alone may be any word: as a member it stands in backquotes.
_MEMBER = re.compile("|".join(rf"\b{name}\b" if "_" in name else f"`{name}`" for name in OPTION_OF))


def in_options(text: str) -> str:
    """Names options where the gateway's text names members."""
    return _MEMBER.sub(lambda match: OPTION_OF[match[0].strip("`")], text)
