"""A real gateway and client, and between them a proxy that loses, repeats and delays requests at random."""

import os
import threading
from collections import Counter
from contextlib import closing
from random import Random

import pyarrow as pa
import pytest

from oncegate_spark import Gateway
from oncegate_spark.errors import BatchConflict, MissingStage, SecondWrite
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.effort import new_token
from oncegate_spark.protocol.names import BatchName
from oncegate_spark.spark.writers.claim_loop import Settler
from oncegate_spark.sync.attempt import Attempt
from tests.support.faulty_proxy import Fault, FaultyProxy, bad
from tests.support.gateway_process import GatewayProcess

pytestmark = pytest.mark.server
SEED = int(os.environ.get("ONCEGATE_TEST_SEED", "20261120"))


class Died(Exception):
    pass


@pytest.mark.parametrize("walk", range(3))
def test_claimed_rows_are_never_lost_and_duplicates_are_takeovers(
    gateway_process: GatewayProcess, gateway: Gateway, walk: int
) -> None:
    """Three workers over one set of ids, each in its own order; their attempts die at random and are repeated."""
    print("ONCEGATE_TEST_SEED", SEED)
    rng = Random(SEED + walk)
    ids = [f"id-{n}" for n in range(120)]
    written: list[str] = []

    with FaultyProxy(gateway_process.port, lambda kind: bad(rng)) as proxy:

        def worker(own: Random) -> None:
            order = own.sample(ids, len(ids))
            while not attempted(proxy, gateway.namespace, order, written, own):
                proxy.deliver_late()

        threads = [threading.Thread(target=worker, args=(Random(f"{SEED}-{walk}-{n}"),)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        proxy.deliver_late()
        assert {fault for _, fault in proxy.seen} == set(Fault)
    counted = Counter(written)
    assert set(counted) == set(ids)
    assert sum(counted.values()) - len(ids) <= gateway.describe()["counters"]["takeovers"]
    with gateway.attempt() as late:
        assert len(late.claim(ids).dropped) == len(ids)


def attempted(proxy: FaultyProxy, namespace: str, order: list[str], written: list[str], rng: Random) -> bool:
    """Makes one attempt at all ids. Returns False if it died, before or after a write."""

    def write(rows: pa.RecordBatch) -> None:
        if rng.random() < 0.1:
            raise Died
        written.extend(rows.column("id").to_pylist())
        if rng.random() < 0.1:
            raise Died

    with Gateway(f"http://127.0.0.1:{proxy.port}", namespace, timeout_ms=20_000) as gateway:
        settler = Settler(Attempt(gateway), ["id"], write, lease_ms=1_000)
        with closing(settler):
            try:
                for start in range(0, len(order), 15):
                    settler.settle(pa.RecordBatch.from_pydict({"id": order[start : start + 15]}))
            except Died:
                return False
    return True


@pytest.mark.parametrize("walk", range(3))
def test_staged_batches_are_published_once(gateway_process: GatewayProcess, gateway: Gateway, walk: int) -> None:
    """A driver that stages and commits batch after batch, dies at random, and restarts from its last batch."""
    print("ONCEGATE_TEST_SEED", SEED)
    rng = Random(SEED + walk)
    with FaultyProxy(gateway_process.port, lambda kind: bad(rng)) as proxy:
        batch = 0
        while batch < 25:
            url = f"http://127.0.0.1:{proxy.port}"
            with Gateway(url, gateway.namespace, timeout_ms=20_000) as client:
                batch = driven(client, batch, new_token(), rng)
            proxy.deliver_late()
    table = gateway.read("t")
    assert table is not None
    assert Counter(table.column("n").to_pylist()) == Counter(range(250))


def driven(client: Gateway, batch: int, run: str, rng: Random) -> int:
    """Runs a driver from a batch on until it dies. Returns the first batch that it does not know as committed."""
    while batch < 25:
        name, rows = BatchName("app", str(batch), "t"), pa.table({"n": range(10 * batch, 10 * batch + 10)})
        try:
            winners = [staged(client, name, run, part, rng) for part in (rows.slice(0, 4), rows.slice(4))]
            order = {"run": run, "nonce": new_token(), "winners": winners, "digest": f"{batch:064x}"}
            done = client.commit(name, {**order, "previous_digest": None, "on_replay_mismatch": "fail"})
        except (Died, MissingStage):
            return batch
        assert done.outcome in {"COMMITTED", "DUPLICATE"}
        if rng.random() < 0.2:
            return batch  # died before it recorded that the batch is done
        batch += 1
    return batch


def staged(client: Gateway, name: BatchName, run: str, rows: pa.Table, rng: Random) -> dict[str, object]:
    """Runs a task until an attempt of it survives."""
    while True:
        token, fingerprint, sent = new_token(), 0, 0
        for chunk, batch in enumerate(rows.to_batches(max_chunksize=3)):
            done = client.stage(name, run, token, chunk, codecs.stream([codecs.as_nullable(batch)]))
            fingerprint, sent = (fingerprint + done.fingerprint) % (1 << 128), sent + done.rows
        if rng.random() < 0.1:
            continue
        if rng.random() < 0.05:
            client.abort(name, [token])
            raise Died
        chunks = -(-rows.num_rows // 3)
        prints = fingerprint.to_bytes(16, "little").hex()
        return {"token": token, "chunks": chunks, "rows": sent, "fingerprint": prints}


def test_a_second_write_of_one_run_is_refused_through_lost_replies_too(
    gateway_process: GatewayProcess, gateway: Gateway
) -> None:
    """The first answer to every request is lost; the repeat must not pass for a second write."""
    turn = [0]

    def every_other(kind: str | None) -> Fault:
        turn[0] += 1
        return Fault.LOSE_REPLY if turn[0] % 2 else Fault.PASS

    with (
        FaultyProxy(gateway_process.port, every_other) as proxy,
        Gateway(f"http://127.0.0.1:{proxy.port}", gateway.namespace, timeout_ms=20_000) as client,
    ):
        run = new_token()
        assert written_once(client, run, "00" * 32) == "COMMITTED"
        with pytest.raises(SecondWrite):
            written_once(client, run, "00" * 32)
        assert written_once(client, new_token(), "00" * 32) == "DUPLICATE"
        with pytest.raises(BatchConflict) as raised:
            written_once(client, new_token(), "11" * 32)
    assert raised.value.extra["committed_rows"] == 2


def written_once(client: Gateway, run: str, digest: str) -> str:
    name = BatchName("app", "0", "t")
    token = new_token()
    body = codecs.stream([pa.RecordBatch.from_pydict({"n": [1, 2]})])
    done = client.stage(name, run, token, 0, body)
    winner = {"token": token, "chunks": 1, "rows": 2, "fingerprint": done.fingerprint.to_bytes(16, "little").hex()}
    order = {"run": run, "nonce": new_token(), "winners": [winner], "digest": digest, "previous_digest": None}
    return client.commit(name, {**order, "on_replay_mismatch": "fail"}).outcome
