"""Defines the findings of `oncegate doctor`, one line each."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """The severity of a finding: `wrong` prevents the gateway from serving, or may lose data."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True)
class DoctorFinding:
    """The result of one check; unless it is ok, also its consequence (`why`) and its remedy (`do`)."""

    check: str
    level: Level
    what: str
    why: str = ""
    do: str = ""

    def __str__(self) -> str:
        text = "; ".join(part for part in (self.what, self.why, self.do) if part)
        return f"{self.level.value:<8} {self.check:<12} {text}"

    @property
    def members(self) -> dict[str, Any]:
        """Returns the members as plain values."""
        return {**asdict(self), "level": self.level.value}


def ok(check: str, what: str) -> DoctorFinding:
    return DoctorFinding(check, Level.OK, what)


def warning(check: str, what: str, why: str, do: str) -> DoctorFinding:
    """Returns a warning: a finding that may become a problem."""
    return DoctorFinding(check, Level.WARNING, what, why, do)


def wrong(check: str, what: str, why: str, do: str) -> DoctorFinding:
    """Returns an error: a finding that must be repaired."""
    return DoctorFinding(check, Level.WRONG, what, why, do)
