"""The batch that ids belong to, where their request names one: `driver` and `batch`, which go together."""

from urllib.parse import unquote

from fastapi import Request

from oncegate.core.errors import BadRequest
from oncegate.engine.limits import Limits
from oncegate.engine.requests import Scope
from oncegate.transports.http.inbound import whole_number

BATCH_MAX = 2**63 - 1
_DRIVER, _BATCH = "Oncegate-Driver", "Oncegate-Batch"


def of_headers(request: Request, limits: Limits) -> Scope | None:
    """Of a packed or Arrow body. Raises BadRequest."""
    driver, batch = request.headers.get(_DRIVER), request.headers.get(_BATCH)
    if driver is None and batch is None:
        return None
    number = None if batch is None else whole_number(batch, _BATCH, BATCH_MAX)
    return of_members(None if driver is None else unquote(driver), number, limits)


def of_members(driver: str | None, batch: int | None, limits: Limits) -> Scope | None:
    """Of a JSON body. Raises BadRequest."""
    if driver is None and batch is None:
        return None
    if driver is None or batch is None:
        raise BadRequest("driver and batch go together: ids belong to a batch of a driver, or to the namespace")
    if not 0 < len(driver.encode()) <= limits.name_bytes:
        raise BadRequest(f"driver: from 1 to {limits.name_bytes} bytes of text are wanted")
    return Scope(driver, batch)
