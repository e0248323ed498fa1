"""What a namespace will need, before it is there: memory, disk and start-up from rate and horizon. Pure arithmetic.

Each number has its reason; a test holds memory and disk against what is measured, the bench the times. What is told is
what is needed at most once a whole horizon is full: everything stays below it, start-up and disk of a younger one far.
"""

import math
from dataclasses import dataclass

from oncegate.engine.limits import MIB, Limits
from oncegate.index.committed_names import NAMES_REMEMBERED_IN_ALL

# An idle gateway: Python, numpy, pyarrow, the compiled kernels, one namespace (anonymous memory; files come on top).
PROCESS_BYTES = 200 * MIB
# A slot of the table, and how full it is on the average between two steps of a segment's ladder.
SLOT_BYTES, TABLE_LOAD = 16, 0.57
# A claim's row in all arrays, and what Python's dictionaries hold of a claim that can still be named.
ROW_BYTES, NAMED_BYTES = 172, 300
# How long a settled claim can be named at least, in leases; and how many are, where there is time for more.
NAMED_LEASES = 2
SETTLED_MAX = Limits.settled_claims_bytes // (ROW_BYTES + NAMED_BYTES)
# A run's fences: one word for a block of 255 records.
FENCE_BYTES = 8 / 255
# Entries: what surrounds the ids of a claim, a completion, the header of a frame.
CLAIM_BYTES, COMPLETION_BYTES, FRAME_BYTES = 86, 26, 80
ID_BYTES = 16
BLOCK_BYTES = 4_096
# A block of a run is 255 records and its checksum.
RUN_BYTES = BLOCK_BYTES / 255
# An id is forgotten up to a twelfth of the horizon late: a bucket, and the time until the upkeep looks.
LATE = 1 / 12
# Entries are compacted when they are twice what was saved before; until the new state replaces it, the old one stays.
ENTRIES_PER_SAVED, SAVED_AT_ONCE = 2, 2
# Of an id's payload, beside its slot, its id in an entry and its position in a snapshot.
DIGEST_BYTES = 4
# A result beside its bytes: in memory, in its entry (a tag and two lengths), in a snapshot (its row and a length).
RESULT_BYTES, RESULT_ENTRY_BYTES, RESULT_SAVED_BYTES = 160, 9, 9
# A committed name: an older one in memory and in a snapshot; of the last ones what Python holds, and what is saved.
NAME_BYTES, LAST_NAME_BYTES, LAST_NAME_SAVED_BYTES = 60.3, 930, 270
LAST_NAMES_MAX = NAMES_REMEMBERED_IN_ALL
# A range of rows: in the ledger's catalog and as retention sees it, in memory and saved; the account of its file, where
# it is alone there, as a staged chunk is.
RANGE_BYTES, RANGE_FILE_BYTES = 104, 140
# Start-up on one core, as `python -m bench.cases.start` measures processor time: the process (its bytecode cached, as
# an installed package's is), a saved id, an entry's id, an entry whatever it holds, a byte of a filter.
START_S = 1.6
SAVED_IDS_PER_S, ENTRY_IDS_PER_S, ENTRY_S, FILTER_BYTES_PER_S = 15e6, 9e6, 15e-6, 1e9
# As `python -m bench.cases.names_and_ranges` measures processor time.
SAVED_NAMES_PER_S, SAVED_RANGES_PER_S = 4e6, 0.4e6


@dataclass(frozen=True)
class Work:
    """The load to plan for. `rate`: new ids a second, all day; `fpr`: the summed false-positive rate of the filters.

    `clients` work side by side, each with one request of `batch` ids under way. `filter_bytes`: of one id in a filter.
    payload_digests: every id comes with a payload that is to be known again, so none leaves memory. result_bytes: of
    what each claim is completed with, 0 for nothing. places: rows are written by produce, and keep where they lie.
    names: of batches, committed so far. ranges: of rows, kept by topics: one a produce request or staged chunk.
    """

    rate: float
    horizon_s: float
    filter_bytes: float
    batch: int = 10_000
    clients: int = 1
    hot_ids_max: int = Limits.hot_ids
    lease_s: float = Limits.lease_ms / 1_000
    settled_claim_s: float = Limits.settled_claim_ms / 1_000
    collect_bytes: int = Limits.collect_bytes
    payload_digests: bool = False
    result_bytes: int = 0
    results_bytes_max: int = Limits.results_bytes
    places: bool = False
    names: int = 0
    ranges: int = 0

    @property
    def digest_bytes(self) -> int:
        """Memory of the digest of one id's payload, in bytes; 0 where ids come alone."""
        return DIGEST_BYTES if self.payload_digests else 0


@dataclass(frozen=True)
class Sizes:
    """Ids, bytes and seconds. `ids` are `hot_ids` in memory and `cold_ids` behind filters; each total is a sum."""

    ids: int
    hot_ids: int
    cold_ids: int
    memory: dict[str, int]
    disk: dict[str, int]
    start_s: dict[str, float]

    @property
    def memory_bytes(self) -> int:
        """Memory in all, in bytes."""
        return sum(self.memory.values())

    @property
    def disk_bytes(self) -> int:
        """Disk in all, in bytes."""
        return sum(self.disk.values())

    @property
    def total_start_s(self) -> float:
        """How long a start takes in all, in seconds."""
        return sum(self.start_s.values())


def sizes(work: Work) -> Sizes:
    """Computes what `work` needs at most. Raises ValueError: a number that is not above zero."""
    if min(work.names, work.ranges) < 0:
        raise ValueError("names and ranges are not below zero")
    if min(work.rate, work.horizon_s, work.batch, work.clients, work.hot_ids_max) <= 0:
        raise ValueError("rate, horizon, batch, clients and the ids in memory are above zero")
    ids = math.ceil(work.rate * work.horizon_s * (1 + LATE))
    most = ids if work.payload_digests else work.hot_ids_max
    hot = min(ids, max(most, math.ceil(work.rate * held_s(work))))
    cold, named = ids - hot, named_claims(work)
    memory = {
        "process": PROCESS_BYTES,
        "table": table_bytes(hot),
        "payload digests": math.ceil(hot * work.digest_bytes / TABLE_LOAD),
        "claims": math.ceil(named * (ROW_BYTES + NAMED_BYTES)),
        "filters": math.ceil(cold * (work.filter_bytes + FENCE_BYTES)),
        "results": math.ceil(results_kept(work, hot) * (RESULT_BYTES + work.result_bytes + ROW_BYTES)),
        "places": math.ceil(hot / work.batch * ROW_BYTES) if work.places else 0,
        "names": math.ceil(work.names * NAME_BYTES + min(work.names, LAST_NAMES_MAX) * LAST_NAME_BYTES),
        "ranges": work.ranges * (RANGE_BYTES + RANGE_FILE_BYTES),
    }
    saved = saved_bytes(hot, named, work.digest_bytes) + kept_bytes(work)
    saved += math.ceil(results_kept(work, hot) * (RESULT_SAVED_BYTES + work.result_bytes + ROW_BYTES))
    saved += memory["places"]
    id_entry_bytes = entry_bytes(work.batch, work.clients, work.digest_bytes, work.result_bytes)
    entries = max(work.collect_bytes, ENTRIES_PER_SAVED * saved)
    disk = {
        "entries": math.ceil(min(entries, id_entry_bytes * ids)),
        "snapshot": SAVED_AT_ONCE * saved,
        "archives": cold * ID_BYTES,
        "runs": math.ceil(cold * (RUN_BYTES + FENCE_BYTES + work.filter_bytes)),
    }
    waiting = disk["entries"] / id_entry_bytes
    start_s = {
        "process": START_S,
        "snapshot": hot / SAVED_IDS_PER_S,
        "names": work.names / SAVED_NAMES_PER_S,
        "ranges": work.ranges / SAVED_RANGES_PER_S,
        "entries": waiting * (1 / ENTRY_IDS_PER_S + 2 * ENTRY_S / work.batch),
        "filters": cold * work.filter_bytes / FILTER_BYTES_PER_S,
    }
    return Sizes(ids, hot, cold, memory, disk, start_s)


def table_bytes(ids: int) -> int:
    """Computes the memory of so many ids in the table, in bytes."""
    return math.ceil(ids * SLOT_BYTES / TABLE_LOAD)


def results_kept(work: Work, hot_ids: int) -> float:
    """Counts the results that are kept: of each claim whose ids are in memory, within their budget. Its row stays as
    long, for no other claim's ids may share it."""
    if not work.result_bytes:
        return 0
    return min(hot_ids / work.batch, work.results_bytes_max // (RESULT_BYTES + work.result_bytes))


def kept_bytes(work: Work) -> int:
    """Computes the disk of the names and ranges of a snapshot, in bytes."""
    names = work.names * NAME_BYTES + min(work.names, LAST_NAMES_MAX) * LAST_NAME_SAVED_BYTES
    return math.ceil(names) + work.ranges * RANGE_BYTES


def named_claims(work: Work) -> float:
    """Counts the claims that can be named at once: those under way, and those that are settled and known yet."""
    claims_per_s = work.rate / work.batch
    remembered = min(
        claims_per_s * min(max(NAMED_LEASES * work.lease_s, work.settled_claim_s), work.horizon_s), SETTLED_MAX
    )
    return work.clients + max(remembered, claims_per_s * held_s(work))


def held_s(work: Work) -> float:
    """Computes how long a claim's ids stay in memory at least, in seconds: as long as it can be named for sure."""
    return min(NAMED_LEASES * work.lease_s, work.horizon_s)


def entry_bytes(batch: int, clients: int, digest_bytes: int = 0, result_bytes: int = 0) -> float:
    """Computes the disk of an id's claim and completion, in bytes.

    Entries that come together share a frame, and frames are whole blocks.

    With several clients an append holds what all of them sent meanwhile: a claim and its completion are in two.
    """
    requested = math.ceil((FRAME_BYTES + clients * (CLAIM_BYTES + (ID_BYTES + digest_bytes) * batch)) / BLOCK_BYTES)
    completion_bytes = COMPLETION_BYTES + (RESULT_ENTRY_BYTES + result_bytes if result_bytes else 0)
    done = math.ceil((FRAME_BYTES + clients * completion_bytes) / BLOCK_BYTES)
    return BLOCK_BYTES * (requested + done) / (clients * batch)


def saved_bytes(ids: int, claims: float, digest_bytes: int = 0) -> int:
    """Computes the disk of a snapshot of the index, in bytes."""
    return math.ceil(ids * (SLOT_BYTES + digest_bytes) + claims * ROW_BYTES)
