"""The batch that ids belong to, where their request names one: `driver` and `batch`, which go together."""

from oncegate.core.errors import BadRequest
from oncegate.engine.requests import Scope


def scope_of(driver: str | None, batch: int | None) -> Scope | None:
    """Returns the batch of a driver that ids count in; None: they count in the namespace.

    Raises BadRequest when one is there without the other. The engine checks the name and the number.
    """
    if driver is None and batch is None:
        return None
    if driver is None or batch is None:
        raise BadRequest("driver and batch go together: ids belong to a batch of a driver, or to the namespace")
    return Scope(driver, batch)
