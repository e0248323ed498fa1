"""Measures the cost of keeping and forgetting an id: disk, memory, restart and expiry of a bucket; also for Redis."""

import time

import numpy as np
import redis as redis_library

from bench.cases.growth import add
from bench.cases.setting import Setting
from bench.load.prefill import BATCH
from bench.load.server import Served, gateway, redis
from bench.report.figures import Figure
from oncegate.core.entries.kinds import Retired
from oncegate.index.claims.apply import apply, settle
from oncegate.index.claims.store import ClaimStore
from oncegate.index.shard import warm_up
from oncegate.ledgers.log.reserve import RESERVE_NAME

KEYS, SETS = "Redis, a key an id", "Redis, a set of ids"
BUCKET_IDS = 1_000_000
# Ids that stay: the bucket expires in a table that holds others too.
OTHER_IDS = 1_000_000
# Fewer claims if each has one id, sent one after another, since these are slow.
ONE_BY_ONE_IDS = 1_000


def gateway_bytes(setting: Setting, batch: int) -> tuple[float, float]:
    """Returns the bytes per id on disk and in memory, claimed and completed in requests of `batch`."""
    folder, ids = setting.scratch(f"kept {batch}"), setting.plan.kept_ids if batch > 1 else ONE_BY_ONE_IDS
    with gateway(folder) as served:
        setting.load.run(served, "prefill", live=ids, ids=batch)
        before = served.process.memory_info().rss
        setting.load.run(served, "prefill", live=ids, ids=batch, first=ids)
        memory = served.process.memory_info().rss - before
    # Without the disk reserve, a file whose size does not depend on the number of ids.
    files = [path for path in (folder / "data").rglob("*") if path.is_file() and path.name != RESERVE_NAME]
    size_bytes = sum(path.stat().st_size for path in files)
    return size_bytes / (2 * ids), max(0.0, memory / ids)


def redis_bytes(setting: Setting, only: str) -> dict[str, float]:
    """Returns the bytes per id in the AOF and in memory, and the duration of a restart in microseconds per id."""
    folder, ids = setting.scratch(f"redis {only}"), setting.plan.kept_ids
    with redis(folder) as served:
        before = _used(served)
        setting.load.run(served, "prefill_redis", live=ids, only=only)
        memory, forgotten_ms = (_used(served) - before) / ids, 0.0
    disk = sum(path.stat().st_size for path in folder.rglob("*.aof")) / ids
    start = time.perf_counter()
    with redis(folder) as served:
        rate = ids / (time.perf_counter() - start)
        forgotten_ms = _forget(served, only)
    return {"disk": disk, "memory": memory, "restart": rate, "forget_ms": forgotten_ms * BUCKET_IDS / ids}


def _used(served: Served) -> int:
    with redis_library.Redis(port=served.port) as client:
        return int(client.info("memory")["used_memory"])


def _forget(served: Served, only: str) -> float:
    """Returns the milliseconds until all ids are gone: by UNLINK of the set, or by expiry of every key."""
    with redis_library.Redis(port=served.port, socket_timeout=600) as client:
        start = time.perf_counter()
        if only == "bucket":
            client.unlink(*client.keys("bench*"))
        else:
            client.eval(_EXPIRE, 0)
            start = time.perf_counter()
            while client.dbsize():
                time.sleep(0.005)
        return (time.perf_counter() - start) * 1_000


_EXPIRE = "for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('PEXPIRE', key, 1) end"


def retire(batch: int) -> tuple[float, float]:
    """Returns the time to expire a bucket of a million done ids among as many others, in wall and processor ms."""
    warm_up()
    store, rng = ClaimStore(), np.random.default_rng(1)
    calls = (BUCKET_IDS + OTHER_IDS) // batch
    for call in range(calls):
        add(store, call, rng.bytes(16), rng.bytes(16 * batch), batch)
    # After every lease, as for a bucket of hours: no request can name these claims any more.
    now_ms = 5 * calls + 3_600_000
    start, start_cpu = time.perf_counter(), time.thread_time()
    undo = apply(store, 2 * calls + 1, Retired(5 * (BUCKET_IDS // batch), now_ms), now_ms)
    if undo is not None:
        settle(store, undo)
    return (time.perf_counter() - start) * 1_000, (time.thread_time() - start_cpu) * 1_000


def figures(setting: Setting) -> list[Figure]:
    """Measures all costs."""
    setting.tell("disk and memory")
    keys, bucket = redis_bytes(setting, "keys"), redis_bytes(setting, "bucket")
    all_figures = []
    for batch in (10_000,) if setting.plan.short else (1, 100, 1_000, 10_000, BATCH):
        disk, memory = gateway_bytes(setting, batch)
        of_disk = Figure(f"disk, {batch:,} ids a request", disk, "bytes/id")
        all_figures += [of_disk, of_disk.against(KEYS, keys["disk"]), of_disk.against(SETS, bucket["disk"])]
        if batch == 10_000:
            of_memory = Figure("memory, the process, 10,000 ids a request", memory, "bytes/id")
            all_figures += [of_memory.against(KEYS, keys["memory"]), of_memory.against(SETS, bucket["memory"])]
    setting.tell("retire")
    # The first run loads the compiled kernels.
    pause_ms, cpu_ms = sorted(retire(10_000) for _ in range(3))[1]
    retired = Figure(f"retire a bucket of {BUCKET_IDS:,} ids", pause_ms, "ms")
    all_figures += [
        Figure(f"{retired.name}, processor time", cpu_ms, "ms"),
        retired,
        retired.against("Redis, expiry of keys", keys["forget_ms"]),
    ]
    all_figures += [retired.against("Redis, UNLINK of a set", bucket["forget_ms"])]
    restarts = {KEYS: keys["restart"], SETS: bucket["restart"]}
    return [*all_figures, *(Figure(f"restart, {name}", rate, "ids/s") for name, rate in restarts.items())]


__all__ = ["figures", "retire"]
