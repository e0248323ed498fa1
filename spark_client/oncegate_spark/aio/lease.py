"""Renews a lease from a task while the work under it runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from oncegate_spark.aio.runner import AsyncRunner
from oncegate_spark.protocol.calls.lease import ClaimLease, renewals


@asynccontextmanager
async def renewal(gateway: AsyncRunner, lease: ClaimLease | None) -> AsyncIterator[None]:
    """Renews a lease from a task while the block runs, and waits for that task at the end."""
    twin = gateway.renewing
    task = asyncio.create_task(twin.run(renewals(twin.calls, lease)), name="oncegate-renew")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()  # anything but an error of the gateway is a bug and is raised
