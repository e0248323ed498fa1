"""Defines every limit: its name, its default, the reason for it, and whether it is a setting of the process or of the
data.

The limits are listed at /v1/limits; `settings` makes each of them a setting. A limit is of the process unless it is
declared otherwise. The comment above a limit is its description in docs/settings.md.
"""

from dataclasses import dataclass, field
from typing import Any

from oncegate.core.errors import BadRequest

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


def _semantic(default: int) -> Any:
    """Declares a limit that changes what counts as a duplicate, or for how long; all owners of a ledger must use the
    same value."""
    return field(default=default, metadata={"half": "semantic"})


def _one_of(default: str, *others: str) -> Any:
    """Declares a limit whose value is one of a few words."""
    return field(default=default, metadata={"choices": (default, *others)})


@dataclass(frozen=True)
class Limits:
    """Holds the limits in force."""

    # Ten of Spark's default Arrow batches. At 15 ns an id, one request blocks the event loop for less than 10 ms.
    ids_per_request: int = 100_000
    # Longer than any usual index key. Hash longer ids before you send them.
    id_bytes: int = _semantic(1 * KIB)
    # Half of Spark's largest Arrow batch, 64 MiB; the client cuts larger ones.
    body_bytes: int = 32 * MIB
    # The JSON parser holds the interpreter lock, some 10 ms for 100,000 short ids. Send larger requests packed or as
    # Arrow.
    json_bytes: int = 4 * MIB
    # Colons, commas, brackets, bytes of long numbers. The JSON parser holds the interpreter lock for up to 200 ns each.
    json_tokens: int = 250_000
    # Wider than tables whose columns people name. Each column costs an array and its name, however few its rows.
    columns_per_request: int = 1_000
    # Rows times columns of JSON, nulls included: some 50 ns each.
    json_cells: int = 1_000_000
    # Kafka's default for one message.
    record_bytes: int = 1 * MIB
    # Eight of the largest bodies: as much as a small machine holds beside its index. Counts request bodies and unread
    # answers; one caller may leave an eighth of it unread.
    bytes_in_flight: int = 256 * MIB
    # Ten of the largest requests with ids. A row costs some 50 bytes of memory in addition to its data.
    rows_per_request: int = 1_000_000
    # Slower than any network of a writer. A slower client only occupies a request slot.
    body_bytes_per_second_min: int = 64 * KIB
    # Covers a pause between head and body, or a network that loses packets.
    body_grace_ms: int = 5_000
    # Covers a reader's garbage collection or slow sink. A reader that takes no byte for longer is disconnected.
    unread_answer_ms: int = 30_000
    # More than any pool of executors keeps open at once. A longer queue only adds latency.
    requests_in_flight: int = 1_024
    # A Python worker's longest usual pause (garbage collection, a slow sink) with a margin.
    lease_ms: int = _semantic(30_000)
    lease_ms_min: int = _semantic(1_000)
    # Longest wait for the ids of a dead writer.
    lease_ms_max: int = _semantic(15 * 60_000)
    # A status and a number, or the address of a larger result. 100,000 results, 26 MB, still fit into one answer.
    result_bytes: int = _semantic(256)
    # Some 160,000 results of the largest size. Above it the oldest are forgotten, and DUPLICATE comes without a result.
    results_bytes: int = 64 * MIB
    # Each entry reads a segment of up to 64 MiB, some 70 ms. If more entries wrote the rows, some offsets stay unknown.
    located_entries: int = 16
    # Longer than clients retry. Until then a retry is answered that the claim is settled, and not that it is unknown.
    settled_claim_ms: int = _semantic(10 * 60_000)
    # Some 150,000 claims. Above it the oldest are known for two leases only, as when ids must leave memory.
    settled_claims_bytes: int = 64 * MIB
    # Four of the longest leases: any caller that could still retry a request is known by then.
    horizon_ms_min: int = _semantic(3_600_000)
    # Each reserves some 67 GB of address space for its index, out of 128 TiB, and needs eight file descriptors. The
    # limit is lower if the process may open fewer files.
    namespaces: int = 1_000
    # Each has some 80 series at /metrics, which Prometheus keeps. Further namespaces are reported as one sum.
    namespaces_in_metrics: int = 200
    # Four times the requests in flight. A connection costs a file descriptor; the limit is lower if there are fewer.
    connections: int = 4_096
    # Each costs some 100 bytes until it is settled.
    open_claims: int = 100_000
    # Rate of each namespace; 0: unlimited. Set it if several users share a gateway.
    ids_per_second: int = 0
    bytes_per_second: int = 0
    # Rate or number for each tenant, over all of its namespaces and credentials; 0: unlimited.
    tenant_ids_per_second: int = 0
    tenant_bytes_per_second: int = 0
    tenant_open_claims: int = 0
    tenant_namespaces: int = 0
    # Some 300 KB a second. A sample of each cause is enough, and a replay of millions repeats the same record.
    duplicate_records_per_second: int = 1_000
    # Bounds the disk space of uncommitted rows; a micro-batch is rarely above one GiB.
    stage_bytes: int = 8 * GIB
    # Less free space endangers the ledger itself, so stages are refused first.
    disk_free_fraction: float = 0.10
    # The same for a large disk, if it is less: 40 minutes of 100,000 ids a second, at 35 bytes each.
    disk_free_bytes: int = 8 * GIB
    # Disk space kept in reserve, at most a 16th of a small disk: for the largest segment, which a start copies, and for
    # completes and releases of 4,096 appends while the disk is full.
    disk_reserve_bytes: int = 80 * MIB
    # A job that returns after a day stages its rows again.
    stage_ttl_ms: int = _semantic(24 * 3_600_000)
    # A successor's first call proves that the older owner is dead or a zombie. A minute lets its last calls drain.
    stage_idle_ms: int = _semantic(60_000)
    # Size of names and of owners' tokens: enough for a path or a list of UUIDs, small in the ledger.
    name_bytes: int = 512
    # A producer is one partition of a source and keeps a kilobyte for ever. Kafka's largest clusters have fewer
    # partitions.
    producers: int = 100_000
    # A driver is a job, not a run of it; its name and epoch are kept for ever.
    drivers: int = 10_000
    # Kafka's offsets of some 3,000 partitions; they are part of every batch's entry.
    source_offsets_bytes: int = 64 * KIB
    # Per producer, until acked, 24 bytes each. A producer without holes has three; each hole adds one.
    intervals: int = 100_000
    # Per namespace, until acked, 12 bytes each: several micro-batches of a million rows.
    sequence_digests: int = 8_000_000
    # Each is a file stream and a line in every commit. More parallel readers than most clusters have cores.
    partitions: int = 128
    # Per step of background maintenance, in one append: some milliseconds of disk time to unlink as many files.
    trims_per_step: int = 64
    # A smaller ledger is read in a second at most, so a snapshot of it is not worth writing.
    collect_bytes: int = 64 * MIB
    # A GiB of memory at 32 bytes an id. Above it the oldest ids are moved to disk, and are looked up there.
    hot_ids: int = 32 * MIB
    # Size of the ids that are moved to disk at once; an append may have to wait for it.
    seal_bytes: int = 4 * MIB
    # Share of new ids that are looked up on disk in vain, over all runs. Halving it costs a tenth more memory.
    cold_fpr: float = 0.01
    # `blocked`: our own filter; a look-up reads one word of memory. `pybloom`: pybloom-live, a well-known library.
    cold_filter: str = _one_of("blocked", "pybloom")
    # Half of the bandwidth of an average disk. Each id is rewritten some eight times until it is in the largest run.
    merge_bytes_per_second: int = 256 * MIB
    # Ids that are sorted in memory at once when runs are rebuilt: some 800 MiB meanwhile.
    run_ids: int = 16 * MIB
    # Rows of one answer of the read route: as many as a reader can hold at once.
    fetch_rows: int = 1_000_000
    # Size of a page of the read route; rows that were written together, up to `body_bytes`, are one page of Arrow. The
    # next page is made on request, so a slow reader holds one page.
    page_bytes: int = 4 * MIB

    def disk_floor_bytes(self, total_bytes: int) -> int:
        """Returns the number of bytes that stages must leave free on a disk of this size."""
        return min(int(total_bytes * self.disk_free_fraction), self.disk_free_bytes)

    def lease_of(self, requested_ms: int | None) -> int:
        """Returns the lease for a request in ms; the default if `requested_ms` is None. Raises BadRequest outside of
        the limits."""
        lease_ms = self.lease_ms if requested_ms is None else requested_ms
        if not self.lease_ms_min <= lease_ms <= self.lease_ms_max:
            raise BadRequest(f"a lease of {lease_ms} ms; from {self.lease_ms_min} to {self.lease_ms_max} ms are given")
        return lease_ms
