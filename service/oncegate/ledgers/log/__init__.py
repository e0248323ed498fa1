"""The embedded ledger: Oncegate's own append-only log in a data folder.

ledgers    opens, creates and maintains the ledgers of a data folder
data_dir   the data folder: its owner, namespaces, list of ledgers and rollback check (`witness`)
ledger     one owner's handle: append, replay, compact, fetch
strands    thread pools shared by all ledgers
locks      exclusive ownership of a folder
disk       the only code that touches files, so that tests can record its calls or make them fail
opening/   create; scan and recovery (verify everything, then repair and own); replay of entries
files/     the file formats: frames in segments, outputs, snapshots, keys, the list; removal of unneeded files
admin/     operator commands on a data folder: init, accept, backup, restore, verify, dump
"""

from oncegate.ledgers.log.admin.backup import backup
from oncegate.ledgers.log.admin.dump import dump
from oncegate.ledgers.log.admin.init import accept, init
from oncegate.ledgers.log.admin.restore import restore
from oncegate.ledgers.log.admin.verify import verify
from oncegate.ledgers.log.ledgers import LogLedgers, open_log

__all__ = ["LogLedgers", "accept", "backup", "dump", "init", "open_log", "restore", "verify"]
