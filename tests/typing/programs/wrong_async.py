# ruff: noqa
"""Invalid uses of the client for asyncio, above all a missing await; marked as in `wrong_sync`."""

from oncegate_spark import AsyncGateway, Gateway


async def wrong(gateway: AsyncGateway) -> None:
    gateway.describe()  # wrong: unused-coroutine
    gateway.topic("t").name  # wrong: attr-defined
    rows: int = await gateway.produce("t", "ab", 0, b"")  # wrong: assignment
    with gateway.attempt() as attempt:  # wrong: attr-defined
        pass
    async with gateway.attempt() as attempt:
        claimed = attempt.claim(["a"])
        await attempt.complete(claimed)  # wrong: arg-type
        with attempt.holding(await claimed):  # wrong: attr-defined
            pass
        await attempt.complete(["a"])  # wrong: arg-type
    await gateway.take(["a"], "owner")  # wrong: arg-type
    await gateway.create_topic("t", 3)  # wrong: call-arg
    same: Gateway = gateway.twin()  # wrong: assignment
