"""The embedded ledger: an append-only log of our own below a data folder.

frames, body       the bytes of segments        disk       the only place that touches files
segments           walked, verified, appended   outputs    rows of stages and topics, beside the segments
witness            knows how long it was        recovery   judge, then repair and own
ledger             one append                   folder     the data folder, its lists and locks
"""

from oncegate.ledgers.log.folder import LogLedgers, open_log

__all__ = ["LogLedgers", "open_log"]
