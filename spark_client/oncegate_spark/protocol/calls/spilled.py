"""Rows that had waited while the gateway was down, sent by the normal path: it is told since when. No I/O."""

import logging

import pyarrow as pa

from oncegate_spark.errors import Refused
from oncegate_spark.protocol.answers import Written
from oncegate_spark.protocol.calls.attempt import AttemptCalls
from oncegate_spark.protocol.calls.steps import Steps
from oncegate_spark.protocol.columns import Columns

SPILLED_MS = "spilled_ms"  # as the parameter is called, also in the words of a gateway that does not take it

log = logging.getLogger("oncegate_spark")


def produce_spilled(
    attempt: AttemptCalls,
    topic: str,
    rows: pa.Table,
    id_col: Columns,
    key_col: Columns,
    digest_cols: Columns,
    on_conflict: str,
) -> Steps[Written]:
    """Produce rows of which `attempt.spilled_ms` says since when they waited.

    A gateway that does not take it, as one of the version before, is sent the rows without: they matter more than how
    they are counted.
    """
    arguments = (topic, rows, id_col, key_col, digest_cols, on_conflict)
    try:
        return (yield from attempt.produce(*arguments))
    except Refused as error:
        if attempt.spilled_ms is None or SPILLED_MS not in str(error):
            raise
        log.warning("rows for %r are sent without a word that they had waited, so nobody counts it: %s", topic, error)
        attempt.spilled_ms = None
        return (yield from attempt.produce(*arguments))
