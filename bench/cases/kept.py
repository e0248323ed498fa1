"""What an id costs to keep and to forget: disk, memory, a restart, a bucket's end; Redis' figures beside them."""

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
# Of ids that stay: a bucket is retired from a table that holds others too.
OTHER_IDS = 1_000_000
# Claims of one id each, one after another: each takes its time.
ONE_BY_ONE_IDS = 1_000


def gateway_bytes(setting: Setting, batch: int) -> tuple[float, float]:
    """Bytes an id on disk and in memory, claimed and completed in requests of `batch`."""
    folder, ids = setting.scratch(f"kept {batch}"), setting.plan.kept_ids if batch > 1 else ONE_BY_ONE_IDS
    with gateway(folder) as served:
        setting.load.run(served, "prefill", live=ids, ids=batch)
        before = served.process.memory_info().rss
        setting.load.run(served, "prefill", live=ids, ids=batch, first=ids)
        memory = served.process.memory_info().rss - before
    # Without the room that is kept for a full disk: it is one file, whatever the number of ids.
    files = [path for path in (folder / "data").rglob("*") if path.is_file() and path.name != RESERVE_NAME]
    size_bytes = sum(path.stat().st_size for path in files)
    return size_bytes / (2 * ids), max(0.0, memory / ids)


def redis_bytes(setting: Setting, only: str) -> dict[str, float]:
    """Bytes an id in the AOF and in memory, and how long a restart takes, a microsecond an id."""
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
    """Milliseconds until what was kept is gone: UNLINK of the set, or expiry of every key."""
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
    """Until a bucket of a million done ids is forgotten, with as many others there: ms, and of processor time."""
    warm_up()
    store, rng = ClaimStore(), np.random.default_rng(1)
    calls = (BUCKET_IDS + OTHER_IDS) // batch
    for call in range(calls):
        add(store, call, rng.bytes(16), rng.bytes(16 * batch), batch)
    # Past every lease, as a bucket of hours is: nobody can name these claims any more.
    now_ms = 5 * calls + 3_600_000
    start, start_cpu = time.perf_counter(), time.thread_time()
    undo = apply(store, 2 * calls + 1, Retired(5 * (BUCKET_IDS // batch), now_ms), now_ms)
    if undo is not None:
        settle(store, undo)
    return (time.perf_counter() - start) * 1_000, (time.thread_time() - start_cpu) * 1_000


def figures(setting: Setting) -> list[Figure]:
    """All of them."""
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
    # The first loads what was compiled.
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
