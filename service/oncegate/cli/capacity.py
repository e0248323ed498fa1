"""Estimates memory, disk and start-up time of a namespace from its rate and horizon, by arithmetic alone.

The estimates are upper bounds, reached once the namespace has run for a whole horizon. A younger one needs far less
disk and start-up time. A test compares memory and disk with measurements; the benchmarks compare the times.
"""

import math
from dataclasses import dataclass

from oncegate.engine.limits import MIB, Limits
from oncegate.index.committed_names import NAMES_REMEMBERED_IN_ALL

# An idle gateway: Python, numpy, pyarrow, the compiled kernels, one namespace (anonymous memory; files come on top).
PROCESS_BYTES = 200 * MIB
# Size of a slot of the table, and the table's mean load factor between two steps of a segment's growth.
SLOT_BYTES, TABLE_LOAD = 16, 0.57
# A claim's row in all arrays, and the dictionary entries of a claim that a request can still name.
ROW_BYTES, NAMED_BYTES = 172, 300
# Minimum time for which a completed or released claim can be named, in leases, and the maximum number of such claims.
NAMED_LEASES = 2
SETTLED_MAX = Limits.settled_claims_bytes // (ROW_BYTES + NAMED_BYTES)
# Fences of a run: one word for each block of 255 records.
FENCE_BYTES = 8 / 255
# Entries: a claim without its ids, a completion, the header of a frame.
CLAIM_BYTES, COMPLETION_BYTES, FRAME_BYTES = 86, 26, 80
ID_BYTES = 16
BLOCK_BYTES = 4_096
# A block of a run is 255 records and its checksum.
RUN_BYTES = BLOCK_BYTES / 255
# Ids expire up to a twelfth of the horizon late: the length of a bucket, and the interval of the maintenance task.
LATE = 1 / 12
# Entries are compacted once they are twice as large as the last snapshot. The old snapshot stays until the new one
# replaces it.
ENTRIES_PER_SAVED, SAVED_AT_ONCE = 2, 2
# The digest of an id's payload: in memory next to its slot, in an entry next to its id, in a snapshot.
DIGEST_BYTES = 4
# Overhead of a result: in memory, in its entry (a tag and two lengths), in a snapshot (its row and a length).
RESULT_BYTES, RESULT_ENTRY_BYTES, RESULT_SAVED_BYTES = 160, 9, 9
# A committed batch name, in memory and in a snapshot; for the latest ones, the additional objects in memory and bytes
# in a snapshot.
NAME_BYTES, LAST_NAME_BYTES, LAST_NAME_SAVED_BYTES = 60.3, 930, 270
LAST_NAMES_MAX = NAMES_REMEMBERED_IN_ALL
# A range of rows in the ledger's catalog and in retention, in memory and in a snapshot; the record of its file, if the
# range is alone in it, as a staged chunk is.
RANGE_BYTES, RANGE_FILE_BYTES = 104, 140
# Start-up on one core, in processor time measured by `python -m bench.cases.start`: the process (with cached bytecode,
# like an installed package), ids of a snapshot, ids of entries, an entry of any content, bytes of filters.
START_S = 1.6
SAVED_IDS_PER_S, ENTRY_IDS_PER_S, ENTRY_S, FILTER_BYTES_PER_S = 15e6, 9e6, 15e-6, 1e9
# Processor time measured by `python -m bench.cases.names_and_ranges`.
SAVED_NAMES_PER_S, SAVED_RANGES_PER_S = 4e6, 0.4e6


@dataclass(frozen=True)
class Work:
    """The load to plan for.

    rate: new ids per second, sustained. filter_bytes: size of one id in a filter.
    clients: number of concurrent clients, each with one request of `batch` ids in flight.
    payload_digests: every id has a payload whose digest is kept, so no id leaves memory.
    result_bytes: size of the result with which each claim is completed; 0: none.
    places: rows are written by produce, and the location of each is kept.
    names: number of committed batch names. ranges: number of row ranges in topics, one per produce request or staged
    chunk.
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
        """Returns the memory of one payload digest in bytes; 0 if ids have no payloads."""
        return DIGEST_BYTES if self.payload_digests else 0


@dataclass(frozen=True)
class Sizes:
    """The estimate: numbers of ids, bytes and seconds. `hot_ids` are in memory, `cold_ids` in runs with filters."""

    ids: int
    hot_ids: int
    cold_ids: int
    memory: dict[str, int]
    disk: dict[str, int]
    start_s: dict[str, float]

    @property
    def memory_bytes(self) -> int:
        return sum(self.memory.values())

    @property
    def disk_bytes(self) -> int:
        return sum(self.disk.values())

    @property
    def total_start_s(self) -> float:
        return sum(self.start_s.values())


def sizes(work: Work) -> Sizes:
    """Computes the maximum resource needs of the load `work`.

    Raises ValueError if names or ranges are negative, or another number is not positive.
    """
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
    return math.ceil(ids * SLOT_BYTES / TABLE_LOAD)


def results_kept(work: Work, hot_ids: int) -> float:
    """Returns the number of claim results kept: one per claim with ids in memory, within the memory budget.

    The claim's row is kept as long, since no other claim may reuse it.
    """
    if not work.result_bytes:
        return 0
    return min(hot_ids / work.batch, work.results_bytes_max // (RESULT_BYTES + work.result_bytes))


def kept_bytes(work: Work) -> int:
    """Returns the size in bytes of the names and ranges in a snapshot."""
    names = work.names * NAME_BYTES + min(work.names, LAST_NAMES_MAX) * LAST_NAME_SAVED_BYTES
    return math.ceil(names) + work.ranges * RANGE_BYTES


def named_claims(work: Work) -> float:
    """Returns the number of claims that a request can name: open ones, and completed or released ones still kept."""
    claims_per_s = work.rate / work.batch
    remembered = min(
        claims_per_s * min(max(NAMED_LEASES * work.lease_s, work.settled_claim_s), work.horizon_s), SETTLED_MAX
    )
    return work.clients + max(remembered, claims_per_s * held_s(work))


def held_s(work: Work) -> float:
    """Returns the minimum time for which a claim's ids stay in memory, in seconds: as long as it can be named."""
    return min(NAMED_LEASES * work.lease_s, work.horizon_s)


def entry_bytes(batch: int, clients: int, digest_bytes: int = 0, result_bytes: int = 0) -> float:
    """Returns the disk space in bytes used by the claim and completion of one id.

    The entries of one append share a frame, padded to whole blocks. An append holds the entries of all clients; a claim
    and its completion are in different appends.
    """
    requested = math.ceil((FRAME_BYTES + clients * (CLAIM_BYTES + (ID_BYTES + digest_bytes) * batch)) / BLOCK_BYTES)
    completion_bytes = COMPLETION_BYTES + (RESULT_ENTRY_BYTES + result_bytes if result_bytes else 0)
    done = math.ceil((FRAME_BYTES + clients * completion_bytes) / BLOCK_BYTES)
    return BLOCK_BYTES * (requested + done) / (clients * batch)


def saved_bytes(ids: int, claims: float, digest_bytes: int = 0) -> int:
    return math.ceil(ids * (SLOT_BYTES + digest_bytes) + claims * ROW_BYTES)
