"""Kafka record headers as the gateway writes them."""

SOURCE, BATCH = "producer:p", 'batch:["etl","flights",""]'
Header = tuple[str, bytes | None]


def headers(sequence: int, epoch: int = 1, producer: str = BATCH, namespace: str = "flights") -> list[Header]:
    return [
        ("oncegate-ns", namespace.encode()),
        ("oncegate-producer", producer.encode()),
        ("oncegate-epoch", epoch.to_bytes(8, "big")),
        ("oncegate-seq", sequence.to_bytes(8, "big")),
    ]
