"""The interfaces that the engine needs from its environment, as Protocols of at most four members each.

ledger      the durable log, which is the only source of truth, and the set of ledgers
standby     ledgers that are followed while another process owns them
outputs     rows beside a ledger, if it holds any
row_places  locations of the rows of an entry
direct      records of rows that clients write themselves
duplicates  a topic for records of duplicates
runs        the shard's own folder of sorted runs
world       time and events
abilities   the optional features of a ledger
"""

from oncegate.ports.ledger import (
    LEAVING_OUT,
    Ability,
    AppendRefused,
    Followed,
    History,
    Ledger,
    Ledgers,
    Mark,
    OpenLedger,
    Replayed,
    Standbys,
    Storage,
    TopicsElsewhere,
)
from oncegate.ports.outputs import (
    Chunk,
    DirectRecords,
    DropRanges,
    DuplicateTopic,
    LanePlace,
    NotTold,
    Origin,
    OutputChange,
    Outputs,
    PublishRanges,
    RowTopics,
    SendRanges,
    SendReport,
    TrimRanges,
    WriteRange,
)
from oncegate.ports.row_places import RowPlaces, RowRange, partition_numbers
from oncegate.ports.runs import RunFolders, Runs
from oncegate.ports.world import Clock, Observer

__all__ = [
    "LEAVING_OUT",
    "Ability",
    "AppendRefused",
    "Chunk",
    "Clock",
    "DirectRecords",
    "DropRanges",
    "DuplicateTopic",
    "Followed",
    "History",
    "LanePlace",
    "Ledger",
    "Ledgers",
    "Mark",
    "NotTold",
    "Observer",
    "OpenLedger",
    "Origin",
    "OutputChange",
    "Outputs",
    "PublishRanges",
    "Replayed",
    "RowPlaces",
    "RowRange",
    "RowTopics",
    "RunFolders",
    "Runs",
    "SendRanges",
    "SendReport",
    "Standbys",
    "Storage",
    "TopicsElsewhere",
    "TrimRanges",
    "WriteRange",
    "partition_numbers",
]
