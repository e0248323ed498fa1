"""Refuses rows where a ledger is to keep claims only: the server's memory is then that of ids."""

from collections.abc import Sequence
from typing import Any, NoReturn

import pyarrow as pa

from oncegate.core.errors import BadRequest, NotFound
from oncegate.ports import Origin

_WHY = "the ledger's URL has outputs=none, by which its Redis server keeps claims and no rows"


class NoTopics:
    """Implements `ports.RowTopics` where there are none, and none are made."""

    where = ""

    async def check(
        self,
        topic: str,
        schema: Any,
        batches: Sequence[Any],
        origin: Origin | None = None,
        waiting_bytes: int = 0,
        identified: bool = False,
        waiting_topics: Sequence[str] = (),
    ) -> NoReturn:
        """Implements the port's `RowTopics.check`: BadRequest, whatever the rows are."""
        raise BadRequest(
            f"topic {topic} takes no rows: {_WHY}; claim the ids and write the rows elsewhere, or leave outputs out. "
            "Nothing was written"
        )

    @property
    def columns(self) -> Any:
        """Implements the port's `RowTopics.columns`: no record has anything."""
        return pa.schema([])

    def refuse_read(self, topic: str) -> NoReturn:
        """Raises NotFound: what was written before the setting was changed is there still, and not served."""
        raise NotFound(f"topic {topic} is not read here: {_WHY}; leave outputs out to read what was written before")
