"""Lists every limit once: its name, its default, its reason, and which half of the settings it is of: the
process's, where nothing is said.

They are shown at /v1/limits; `settings` makes a setting of each.
"""

from dataclasses import dataclass, field
from typing import Any

from oncegate.core.errors import BadRequest

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


def _semantic(default: int) -> Any:
    """Declares a limit that changes what a duplicate is, or how long one is known: owners of one ledger must agree on
    it."""
    return field(default=default, metadata={"half": "semantic"})


def _one_of(default: str, *others: str) -> Any:
    """Declares a limit that is one of a few words."""
    return field(default=default, metadata={"choices": (default, *others)})


@dataclass(frozen=True)
class Limits:
    """Holds the limits in force."""

    # Ten of Spark's default Arrow batches; at 15 ns an id one request stays below 10 ms of the loop.
    ids_per_request: int = 100_000
    # Longer than any key that people index; a longer one is better hashed by its owner.
    id_bytes: int = _semantic(1 * KIB)
    # A full Arrow batch of Spark's is at most 64 MiB before the client cuts it; half of that per request.
    body_bytes: int = 32 * MIB
    # The reader holds the interpreter, for 100,000 short ids some 10 ms; what is larger comes packed or as Arrow.
    json_bytes: int = 4 * MIB
    # Colons, commas, brackets, bytes of long numbers: for each the reader holds the interpreter up to 200 ns.
    json_tokens: int = 250_000
    # Wider than tables are that people name columns of; each costs some array and its name, however few its rows.
    columns_per_request: int = 1_000
    # Rows times columns of JSON, filled with nulls or not: some 50 ns each.
    json_cells: int = 1_000_000
    # Kafka's default for one message.
    record_bytes: int = 1 * MIB
    # Eight of the largest bodies: what a small machine holds beside its index. Of bodies, and of answers until they are
    # read; one caller may leave an eighth of it unread.
    bytes_in_flight: int = 256 * MIB
    # Ten of the largest requests with ids; what is computed beside a row takes some 50 bytes, however short the row.
    rows_per_request: int = 1_000_000
    # Slower than any network that a writer uses; whoever sends less holds a place for nothing.
    body_bytes_per_second_min: int = 64 * KIB
    # A pause of a writer between the head and its body, or of a network that loses packets.
    body_grace_ms: int = 5_000
    # A garbage collection or a slow sink of a reader that lives; one that takes no byte for longer is cut off.
    unread_answer_ms: int = 30_000
    # More than any pool of executors keeps open at once; above it queueing only adds latency.
    requests_in_flight: int = 1_024
    # A Python worker's longest usual pause (garbage, a slow sink) with room to spare.
    lease_ms: int = _semantic(30_000)
    lease_ms_min: int = _semantic(1_000)
    # A dead writer's ids wait this long at most.
    lease_ms_max: int = _semantic(15 * 60_000)
    # A status and a number, or the address of something longer; 100,000 of them, 26 MB, still are one answer.
    result_bytes: int = _semantic(256)
    # Some 160,000 of the longest; above it the oldest are forgotten, and DUPLICATE comes without them.
    results_bytes: int = 64 * MIB
    # Each reads a segment of 64 MiB at most, some 70 ms; where more requests wrote what is asked for, it stays unknown.
    located_entries: int = 16
    # Longer than clients repeat a request: told "it is done" until then, and not to stop.
    settled_claim_ms: int = _semantic(10 * 60_000)
    # Some 150,000 claims; above it the oldest are known for two leases only, as where ids have to leave memory.
    settled_claims_bytes: int = 64 * MIB
    # Four of the longest leases: whoever could still repeat a request is known by then.
    horizon_ms_min: int = _semantic(3_600_000)
    # Each reserves some 67 GB of address space for its index, and 128 TiB are all there are. Eight descriptors each: it
    # is less where the process may open fewer files.
    namespaces: int = 1_000
    # Each has some 80 series at /metrics, and Prometheus keeps all of them; more are told together.
    namespaces_in_metrics: int = 200
    # Four times the requests in flight: a connection costs a descriptor, and is less where those are fewer.
    connections: int = 4_096
    # Each costs some 100 bytes until it is settled.
    open_claims: int = 100_000
    # Of each namespace; 0: as many as come. Whoever shares a gateway with others sets what one of them may bring.
    ids_per_second: int = 0
    bytes_per_second: int = 0
    # Of each tenant, over all of its namespaces and credentials; 0: no bound of its own.
    tenant_ids_per_second: int = 0
    tenant_bytes_per_second: int = 0
    tenant_open_claims: int = 0
    tenant_namespaces: int = 0
    # Some 300 KB a second; whoever looks for causes needs some of each, and a replay of millions says the same of all.
    duplicate_records_per_second: int = 1_000
    # Uncommitted rows are somebody's disk; a micro-batch is rarely above one GiB.
    stage_bytes: int = 8 * GIB
    # Below this the ledger itself is in danger, so stages are refused first.
    disk_free_fraction: float = 0.10
    # The same for a large disk, where it is less: what 40 minutes of 100,000 ids a second fill, 35 bytes each.
    disk_free_bytes: int = 8 * GIB
    # Kept on the disk, a 16th of a small one at most: the largest segment, which a start copies, and completes and
    # releases of 4,096 appends while the disk is full.
    disk_reserve_bytes: int = 80 * MIB
    # A job that comes back after a day stages again.
    stage_ttl_ms: int = _semantic(24 * 3_600_000)
    # A successor's first call proves the older owner dead or a zombie; a minute lets its last calls drain.
    stage_idle_ms: int = _semantic(60_000)
    # Text in names and tokens of owners: enough for a path or a UUID list, small in the ledger.
    name_bytes: int = 512
    # One partition of a source each, a kilobyte for ever: Kafka's largest clusters have fewer partitions.
    producers: int = 100_000
    # A job each, not a run of it; its name and epoch are kept for ever.
    drivers: int = 10_000
    # Kafka's offsets of some 3,000 partitions; they are part of every batch's entry.
    source_offsets_bytes: int = 64 * KIB
    # Of one producer, until acked: 24 bytes each. A producer without holes has three; each hole is one more.
    intervals: int = 100_000
    # Per namespace, until acked, 12 bytes each: several micro-batches of a million rows.
    sequence_digests: int = 8_000_000
    # Each is a file stream and a line in every commit; more parallel readers than most clusters have cores.
    partitions: int = 128
    # One append and as many files unlinked at each step of background maintenance: some milliseconds of the disk.
    trims_per_step: int = 64
    # Below this a ledger is read in a second at most; a snapshot of it is not worth writing.
    collect_bytes: int = 64 * MIB
    # A GiB of memory at 32 bytes an id; more leave it for the disk, the oldest first, and are looked up there.
    hot_ids: int = 32 * MIB
    # Of ids that leave memory, at once: an append that comes meanwhile waits for it.
    seal_bytes: int = 4 * MIB
    # One new id in a hundred is looked for on the disk in vain, over all runs; half as many cost a tenth more memory.
    cold_fpr: float = 0.01
    # Ours, in one word of memory an id; or pybloom-live's, for whoever trusts a known library more.
    cold_filter: str = _one_of("blocked", "pybloom")
    # Half of what a middling disk writes; each id is written anew some eight times until its run is the largest.
    merge_bytes_per_second: int = 256 * MIB
    # Sorted in memory at once where runs are made again: some 800 MiB for a while.
    run_ids: int = 16 * MIB
    # One answer of the read route: what a reader can hold at once.
    fetch_rows: int = 1_000_000
    # Where a page of the read route ends; rows that were written together, up to `body_bytes`, come as one page of
    # Arrow. The next page is made when it is asked for: a reader that takes its time holds one page.
    page_bytes: int = 4 * MIB

    def disk_floor_bytes(self, total_bytes: int) -> int:
        """Returns how many bytes stay free of stages on a disk of this size."""
        return min(int(total_bytes * self.disk_free_fraction), self.disk_free_bytes)

    def lease_of(self, requested_ms: int | None) -> int:
        """Returns the lease that a request gets, in ms; None: the default. Raises BadRequest outside of the limits."""
        lease_ms = self.lease_ms if requested_ms is None else requested_ms
        if not self.lease_ms_min <= lease_ms <= self.lease_ms_max:
            raise BadRequest(f"a lease of {lease_ms} ms; from {self.lease_ms_min} to {self.lease_ms_max} ms are given")
        return lease_ms
