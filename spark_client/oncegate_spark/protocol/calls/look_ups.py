"""The call that asks what is known of ids, and grants none. No I/O."""

from typing import Any

from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.answers import Decided
from oncegate_spark.protocol.calls.namespace import Calls
from oncegate_spark.protocol.calls.replies import verdicts_of
from oncegate_spark.protocol.calls.requests import ids_headers
from oncegate_spark.protocol.calls.steps import Steps
from oncegate_spark.protocol.ids import Ids, id_columns, listed


class LookedUp(Decided):
    """The answer to `look_up`: nothing is granted."""

    @property
    def written(self) -> Any:
        """These are written."""
        return self._those(self.verdicts.known)

    @property
    def held(self) -> Any:
        """These a claim holds; where its lease is over, its holder may have written them."""
        return self._those(self.verdicts.held)


def look_up(calls: Calls, ids: Ids, id_set: str | None = None) -> Steps[LookedUp]:
    """Ask what is known of ids. Raises BadId before anything is sent."""
    id_list = listed(ids)
    columns = id_columns(id_list)
    body, what = codecs.ids_body(columns), f"look-up of {len(columns[0])} ids"
    request = calls.post("/ids:lookup", what, "nothing; it only reads", ids_headers(id_set), body)
    return calls.send(request, lambda reply: LookedUp(id_list, verdicts_of(reply, len(columns[0]))))
