"""Reads the causes of duplicates from the counters of a gateway under test, and writes rows with ids."""

from typing import Any

import pyarrow as pa

from oncegate.core.causes import Cause
from oncegate.engine.requests import ProduceRequest, Scope
from tests.support.memory_gateway import SENDER, Served, id16, rows_of


def causes(served: Served) -> dict[str, int]:
    counters = served.shard.counters()
    named = {cause.name.lower(): counters[f"duplicates_{cause.name.lower()}"] for cause in Cause}
    return {name: count for name, count in named.items() if count}


async def produce(served: Served, *ids: str, token: int, call: int = 1, batch: int | None = None) -> Any:
    prints = served.namespace.fingerprints().of_array(pa.array(ids, pa.string()))
    scope = None if batch is None else Scope("d", batch)
    ask = ProduceRequest(
        "topic", id16(token), call, rows_of(*range(len(ids))), prints, scope=scope, sender=SENDER.get()
    )
    return await served.namespace.records.produce(ask, served.deadline())
