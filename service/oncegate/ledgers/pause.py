"""Lets time pass in what talks to servers, which have no clock of ours."""

import asyncio
from contextlib import suppress


async def pause(seconds: float) -> None:
    """Returns after so many seconds; other tasks run meanwhile."""
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), seconds)


async def turn() -> None:
    """Returns once tasks that were made before have begun."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    loop.call_soon(done.set_result, None)
    await done
