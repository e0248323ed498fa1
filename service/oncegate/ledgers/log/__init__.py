"""The embedded ledger: an append-only log of our own below a data folder.

ledgers    the ledgers of a data folder: opened, created, kept up
data_dir   the data folder: its owner, namespaces, list of ledgers, witness
ledger     one owner's handle: append, replay, compact, fetch
strands    threads that all ledgers share
locks      one owner of a folder
disk       the only code that touches files, so that tests can record it or make it fail
opening/   create, scan and recovery: judge first, then repair and own; replay of entries
files/     the bytes: frames in segments, outputs, snapshots, witness, keys, the list, garbage
admin/     what a person does with a data folder: init, accept, backup, restore, verify, dump
"""

from oncegate.ledgers.log.admin.backup import backup
from oncegate.ledgers.log.admin.dump import dump
from oncegate.ledgers.log.admin.init import accept, init
from oncegate.ledgers.log.admin.restore import restore
from oncegate.ledgers.log.admin.verify import verify
from oncegate.ledgers.log.ledgers import LogLedgers, open_log

__all__ = ["LogLedgers", "accept", "backup", "dump", "init", "open_log", "restore", "verify"]
