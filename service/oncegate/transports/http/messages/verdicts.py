"""The JSON message of a verdict, generated from core's table: a verdict or flag added there appears here."""

from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, Struct, UnsetType, defstruct

from oncegate.core.verdicts import VERDICTS, Flag, VerdictRow
from oncegate.transports.http.messages.fields import U32, Int64


class Place(Struct, frozen=True):
    """The position of a row written through this gateway."""

    topic: str
    partition: int
    offset: Int64


def verdict_members(row: VerdictRow) -> dict[str, object]:
    """Returns the fixed members of a verdict. Omits a flag that has the name of the row's number."""
    flags = {str(flag.name).lower(): True for flag in Flag if flag in row.flags}
    return {"verdict": row.verdict.name} | {name: on for name, on in flags.items() if name != row.number}


def _verdict_struct() -> Any:
    names = tuple(dict.fromkeys(row.verdict.name for row in VERDICTS))
    flags = dict.fromkeys(name for row in VERDICTS for name in verdict_members(row) if name != "verdict")
    numbers = dict.fromkeys(row.number for row in VERDICTS if row.number is not None)
    fields: list[Any] = [("verdict", Literal[names])]
    fields += [(name, bool, False) for name in flags]
    fields += [(name, U32 | UnsetType, UNSET) for name in numbers]
    fields += [("shadow_verdict", Literal[names] | UnsetType, UNSET)]
    fields += [("place", Place | None | UnsetType, UNSET), ("result", bytes | UnsetType, UNSET)]
    return defstruct("VerdictMessage", fields, omit_defaults=True, frozen=True, module=__name__)


if TYPE_CHECKING:
    VerdictMessage = Any
else:
    VerdictMessage = _verdict_struct()
