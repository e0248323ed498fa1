"""The embedded ledger: an append-only log of our own below a data folder.

disk           the only place that touches files     frames, body   the bytes of segments
segments       walked, verified, appended            outputs        rows of stages and topics, beside them
witness        knows how long the ledger was         keys, lists    small files
making         a new ledger's files                  recovery       judge, then repair and own
ledger         one append                            folder, locks  the data folder and its owner
verbs, dumping what a person does with it            folding        what the frames come to, from a collection on
states         what replaces collected entries       replaying      entries read back
removals       files go when nobody reads them       copies, restoring, verifying   backups and what they are good for
runs           sorted ids, which are made again when they are gone
"""

from oncegate.ledgers.log.admin.backup import backup
from oncegate.ledgers.log.admin.dump import dump
from oncegate.ledgers.log.admin.init import accept, init
from oncegate.ledgers.log.admin.restore import restore
from oncegate.ledgers.log.admin.verify import verify
from oncegate.ledgers.log.data_dir import LogLedgers, open_log

__all__ = ["LogLedgers", "accept", "backup", "dump", "init", "open_log", "restore", "verify"]
