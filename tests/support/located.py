"""Decodes the locations of the first writes that an answer to duplicates contains."""

from typing import Any

import numpy as np
import pyarrow as pa

from tests.support.memory_gateway import Served


def ids_of(served: Served, numbers: Any) -> np.ndarray:
    return served.namespace.fingerprints().of_array(pa.array([str(number) for number in numbers], pa.string()))


def places(answer: Any) -> list[tuple[str, int, int] | None]:
    """Returns the row offset of each id, or None if unknown."""
    of = answer.located
    found = zip(of.topic.tolist(), of.partition.tolist(), of.offset.tolist(), strict=True)
    return [None if offset < 0 else (of.topics[topic], partition, offset) for topic, partition, offset in found]


def results(answer: Any) -> list[bytes | None]:
    return [None if number < 0 else answer.located.results[number] for number in answer.located.result.tolist()]
