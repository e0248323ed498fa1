"""A history that each version writes, and each later one must know: ids, rows, a named batch, sequences, acks."""

import pyarrow as pa

from oncegate_spark import Gateway
from oncegate_spark.protocol.answers import Committed
from oncegate_spark.protocol.effort import new_token
from oncegate_spark.protocol.names import BatchName

TOPIC = "orders"
BATCH = BatchName("etl", "7", TOPIC)
RESULT = b"receipt 41"
DRIVER, PRODUCER = "load", "events-3"
CLAIMED, RELEASED = ["a-1", "a-2"], ["b-1"]
ROWS = {"key": ["c-1", "c-2", "c-3"], "value": ["1200", "350", "9900"]}
STAGED = ["d-1", "d-2"]


def write(gateway: Gateway) -> None:
    """Writes the history once."""
    with gateway.attempt() as attempt:
        attempt.complete(attempt.claim(CLAIMED), RESULT)
        attempt.release(attempt.claim(RELEASED))
        assert attempt.produce(TOPIC, _rows(ROWS), id_col="key").rows == len(ROWS["key"])
    assert _committed(gateway).outcome == "COMMITTED"
    with gateway.producer(PRODUCER, driver=DRIVER) as producer:
        producer.complete(producer.claim(list(range(10))))
    with gateway.driver(DRIVER) as driver:
        driver.ack({PRODUCER: 4})


def answers_about_history(gateway: Gateway) -> dict[str, object]:
    """Returns a gateway's answers about the history: repeats every operation as a client does, and writes nothing."""
    with gateway.attempt() as attempt:
        claimed = attempt.claim([*CLAIMED, *RELEASED], locate=True)
        attempt.release(claimed)
        again = attempt.produce(TOPIC, _rows(ROWS), id_col="key")
    batch = _committed(gateway)
    with gateway.producer(PRODUCER, driver=DRIVER) as producer:
        sequences = producer.claim(list(range(12)))
        producer.release(sequences)
    return {
        "claimed": [list(claimed.granted), [one and one.decode() for one in claimed.results or ()]],
        "produced": [again.rows, again.suppressed],
        "batch": [batch.outcome, batch.rows],
        "granted sequences": list(sequences.granted),
    }


def _rows(columns: dict[str, list[str]]) -> pa.Table:
    return pa.table(columns)


def _committed(gateway: Gateway) -> Committed:
    token, table, sink = new_token(), pa.table({"key": STAGED, "value": STAGED}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    kept = gateway.stage(BATCH, "run:history", token, 0, memoryview(sink.getvalue()))
    winner = {"token": token, "chunks": 1, "rows": len(STAGED)}
    winner["fingerprint"] = kept.fingerprint.to_bytes(16, "little").hex()
    order = {"run": new_token(), "nonce": new_token(), "winners": [winner], "digest": None, "previous_digest": None}
    return gateway.commit(BATCH, order)
