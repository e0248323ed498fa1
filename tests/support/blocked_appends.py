"""Blocks appends of the memory ledger until a test releases them."""

import asyncio
from typing import Any

import pytest

from oncegate.ledgers.memory import MemoryLedger


class Gate:
    """Blocks the appends of the memory ledger until `opened` is set or the context ends. `came` counts them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.opened, self.came = asyncio.Event(), 0
        append = MemoryLedger.append

        async def held(*given: Any) -> Any:
            self.came += 1
            await self.opened.wait()
            return await append(*given)

        patch.setattr(MemoryLedger, "append", held)

    def __enter__(self) -> "Gate":
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.set()
