"""A state that replaces collected entries, whichever way it comes."""

from collections.abc import AsyncIterable, AsyncIterator

from oncegate.ports import State


async def entries_of(state: State) -> AsyncIterator[bytes]:
    """Its entries, in order."""
    if isinstance(state, AsyncIterable):
        async for entry in state:
            yield entry
        return
    for entry in state:
        yield entry
