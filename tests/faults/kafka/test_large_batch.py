"""A batch much larger than the part held in memory: staged and committed over Kafka, while claims continue."""

from pathlib import Path

import pytest

from bench.cases.large_batch import CHUNK_MIB, CHUNK_ROWS, MIB, measured

pytestmark = pytest.mark.slow
BATCH_MIB = 256
CACHE_MIB = 32
# The cache, a chunk as received, decoded and encoded, and batches in flight: the same for 1,024 MiB.
RISE_MIB_MAX = 160 + CACHE_MIB


def test_a_batch_is_never_in_memory_as_a_whole_and_the_claims_that_wait_for_it_are_granted(tmp_path: Path) -> None:
    found = measured(tmp_path, BATCH_MIB, before_s=0.0, after_s=0.0, more=f"&stage_cache_mib={CACHE_MIB}")
    assert found.rows == BATCH_MIB // CHUNK_MIB * CHUNK_ROWS
    assert found.staging_peak_bytes < RISE_MIB_MAX * MIB
    assert found.commit_peak_bytes < RISE_MIB_MAX * MIB
    assert found.waits("commit")
    assert all(is_granted for *_, is_granted in found.claims)
