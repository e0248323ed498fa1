"""Constants that tests replace have their documented values in the product."""

import struct

import pytest

from oncegate.engine import admission
from oncegate.engine.commit import queue as commit_queue
from oncegate.engine.limits import GIB, KIB, MIB, Limits
from oncegate.engine.maintenance import snapshotter
from oncegate.engine.recovery import owner
from oncegate.hashing import cmac
from oncegate.index import audit_trail, committed_names, part, settings, source_offsets, spilled_rows
from oncegate.index import batches as batches_snapshot
from oncegate.index import topics as topics_snapshot
from oncegate.index.claims import row_sharing, snapshot
from oncegate.index.lsm import run, run_kernels
from oncegate.index.table import table
from oncegate.index.topics import KEPT
from oncegate.ledgers import catalog, snapshot_pieces
from oncegate.ledgers.disk import BLOCK_BYTES
from oncegate.ledgers.kafka import record_batch, watch
from oncegate.ledgers.kafka.shard import ledger as kafka_shard
from oncegate.ledgers.kafka.transactions import guard
from oncegate.ledgers.log import ledgers as log_ledgers
from oncegate.ledgers.log import writer as log_writer
from oncegate.ledgers.log.files import frames, outputs
from oncegate.ledgers.server import election
from oncegate.ledgers.server import ledgers as server_ledgers
from oncegate.packed import BLOCK_RECORDS
from oncegate.transports import pages
from oncegate.transports.grpc import server as grpc_server
from oncegate.transports.http.routes import topics as topic_routes
from oncegate.transports.http.server import closing, protocol
from oncegate.verifier import ids as verifier_ids
from oncegate.verifier import repair, runs
from oncegate.verifier.sources import registry
from oncegate_spark.protocol import codecs, effort
from oncegate_spark.protocol.calls import producers as producer_calls
from oncegate_spark.protocol.calls import topics as topic_calls
from oncegate_spark.spark.readers.common import BATCH_ROWS as SPARKS_BATCH_ROWS

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
limits = Limits()
SLOT_BYTES = 16


def test_limits_of_a_request_and_of_all_are_the_multiples_that_they_name() -> None:
    assert limits.ids_per_request == 10 * SPARKS_BATCH_ROWS
    assert limits.ids_per_request * 15 < 10_000_000, "ns of the loop"
    assert limits.rows_per_request == 10 * limits.ids_per_request
    assert limits.body_bytes == 64 * MIB // 2
    assert limits.bytes_in_flight == 8 * limits.body_bytes
    assert limits.record_bytes == 1 * MIB
    assert limits.connections == 4 * limits.requests_in_flight
    assert limits.json_cells * 50 == 50_000_000, "ns: 50 ms"
    assert limits.json_tokens * 200 == 50_000_000, "ns"


def test_an_unread_answer_is_one_body_of_a_caller_and_small_ones_of_all_connections_fit() -> None:
    assert limits.bytes_in_flight // admission.ANSWER_SHARES == limits.body_bytes
    assert admission.SMALL_ANSWER_BYTES * limits.connections <= limits.bytes_in_flight
    assert limits.page_bytes < limits.bytes_in_flight // admission.ANSWER_SHARES
    assert limits.unread_answer_ms == MINUTE_MS // 2
    assert topic_routes.ROOM_WAIT_S * 1_000 < effort.TRY_MS_MAX, "a client still waits for that try"


def test_times_of_claims_and_stages_are_in_the_order_that_their_reasons_need() -> None:
    assert limits.lease_ms_min < limits.lease_ms < limits.settled_claim_ms < limits.lease_ms_max
    assert limits.lease_ms_max == 15 * MINUTE_MS
    assert limits.horizon_ms_min == 4 * limits.lease_ms_max
    assert limits.settled_claim_ms > effort.TIMEOUT_MS, "longer than a client repeats a request"
    assert (limits.stage_ttl_ms, limits.stage_idle_ms) == (24 * HOUR_MS, MINUTE_MS)


def test_memory_and_disk_are_what_the_reasons_reckon() -> None:
    assert limits.hot_ids * 32 == 1 * GIB
    assert limits.run_ids * 50 == 800 * MIB
    assert limits.disk_reserve_bytes == log_writer.SEGMENT_BYTES + 4_096 * BLOCK_BYTES
    assert 40 <= limits.disk_free_bytes / (100_000 * 35) / 60 < 42, "minutes"
    assert limits.collect_bytes <= log_writer.SEGMENT_BYTES == outputs.FILE_BYTES
    assert table.SLOTS_MAX * SLOT_BYTES == 32 * GIB
    assert pytest.approx(365 * 30, rel=0.1) == audit_trail.RECORDS_MAX
    assert (HOUR_MS, pytest.approx(6 * 7 * 24, rel=0.01)) == (spilled_rows.LINE_MS, spilled_rows.LINES_MAX)
    assert runs.BUFFERED_ROWS * 24 == 24 * MIB
    assert runs.BUFFERED_ROWS // runs.BUCKETS == 4_096


def test_the_remembered_names_and_sources_match_the_documented_number() -> None:
    assert committed_names.NAMES_REMEMBERED_IN_ALL == 100 * committed_names.NAMES_REMEMBERED
    uuid_bytes = 36
    each = committed_names.ASKS_BYTES_IN_ALL / committed_names.NAMES_REMEMBERED_IN_ALL
    assert 3 <= each / (committed_names.ASK_BYTES + uuid_bytes) < 4
    assert committed_names.ASKS_REMEMBERED > 4, "one name may have more than its share"
    key, offsets = (
        ("flights", "departures", ""),
        source_offsets.JobOffsets(1, b'[{"events":{"0":1234567,"1":1234567}}]'),
    )
    assert source_offsets.BYTES_IN_ALL / source_offsets._size_bytes(key, offsets) == pytest.approx(45_000, rel=0.1)


def test_pieces_of_an_index_have_their_documented_size_and_fit_their_carriers() -> None:
    assert snapshot._SLOTS_PER_PIECE * SLOT_BYTES == 1 * MIB
    kept_bytes = BLOCK_RECORDS * struct.calcsize(KEPT)
    assert topics_snapshot._BLOCKS_PER_PIECE * kept_bytes == pytest.approx(MIB // 2, rel=0.03)
    older_bytes = committed_names.BLOCK_RECORDS * committed_names._SIZE_BYTES
    assert batches_snapshot._BLOCKS_PER_PIECE * older_bytes == pytest.approx(MIB, rel=0.03)
    assert pytest.approx(256 * KIB, rel=0.1) == catalog.BLOCKS_PER_PIECE * BLOCK_RECORDS * catalog.RANGE_BYTES
    assert snapshot_pieces.PIECE_BYTES < part.PIECE_BYTES < commit_queue.GROUP_BYTES_MAX < frames.BODY_BYTES_MAX
    assert frames.BODY_BYTES_MAX < 2**32, "the limit of a length field"
    assert limits.body_bytes < commit_queue.GROUP_BYTES_MAX, "the largest request is one append"
    assert run_kernels.BLOCK_RECORDS * 16 + 16 == run.BLOCK_BYTES == 8 * run_kernels.BLOCK_WORDS == 4_096
    assert cmac.TILE_ROWS * cmac.BLOCK_BYTES == 64 * KIB


def test_pauses_and_looks_are_the_fractions_and_times_that_they_name() -> None:
    assert (owner.RETRY_MS, owner.RETRIED) == (MINUTE_MS, "and opened again each minute")
    assert owner.REOPEN_MS < owner.REOPEN_MS_MAX == MINUTE_MS
    assert 1 / (1 + owner.RETRY_PAUSES) == 0.1, "of a disk"
    assert 1 / (1 + snapshotter.SNAPSHOT_RESTS) == 0.25, "of the time"
    assert pytest.approx(3) == closing.UNREAD_LOOKS * closing._LOOK_S, "seconds"
    assert limits.body_grace_ms == protocol.HANDSHAKE_S * 1_000
    assert grpc_server.CONNECTION_AGE_MS + grpc_server.CONNECTION_GRACE_MS < HOUR_MS
    assert grpc_server.CONNECTION_GRACE_MS > effort.TRY_MS_MAX
    assert log_ledgers.LOOK_S < log_ledgers.WITNESS_SYNC_S == 1
    assert len([1, 2, 4, 8, 16]) == registry.RETRIES


def test_buckets_of_ids_that_retire_together_are_a_part_of_the_horizon_and_an_hour_at_most() -> None:
    assert settings.BUCKET_MS_MAX == HOUR_MS
    assert settings.bucket_ms(24 * HOUR_MS) == settings.bucket_ms(365 * 24 * HOUR_MS) == HOUR_MS
    assert (settings.bucket_ms(HOUR_MS) + settings.bucket_ms(HOUR_MS)) / HOUR_MS == pytest.approx(0.08, abs=0.005)
    assert 8_000 < 1 << row_sharing.BUCKET_BITS < 8_500, "ms"


def test_clients_cut_their_requests_as_the_gateway_bounds_them() -> None:
    assert (limits.ids_per_request, limits.rows_per_request) == (codecs.IDS_MAX, codecs.ROWS_MAX)
    assert codecs.CHUNK_BYTES < codecs.BODY_BYTES_MAX == limits.body_bytes
    assert limits.lease_ms == effort.LEASE_MS
    assert limits.source_offsets_bytes == effort.SOURCE_OFFSETS_BYTES
    assert topic_calls.PAGE_NAMES == producer_calls.PAGE_INTERVALS == pages.LIMIT_MAX
    assert limits.ids_per_request >= verifier_ids.BATCH_ROWS
    assert limits.body_bytes // 2 == repair.PIECE_BYTES


def test_ledgers_on_servers_wait_and_look_within_what_their_brokers_keep() -> None:
    assert guard.IDLE_S == 3_600 < 7 * 24 * 3_600, "brokers forget a transactional id after seven days"
    assert record_batch.BATCH_BYTES < 1_048_588, "the limit of a broker"
    assert watch.SESSION_PART == 0.5, "the rest suffices for the transaction"
    assert election.LOOK_S < election.BEAT_S
    assert server_ledgers.KEEP_UP_S == log_ledgers.WITNESS_SYNC_S
    assert server_ledgers.KEEP_UP_S < kafka_shard.BEHIND_S < server_ledgers.CHECK_S
    assert kafka_shard.BEHIND_S * 1_000 == MINUTE_MS
