"""What a doctor finds: one line each."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """Says how bad a finding is: `wrong` keeps the gateway from serving, or may lose something."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True)
class DoctorFinding:
    """Says what was found at one check; of what is not ok also why it matters, and what to do."""

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
        """The same as plain values."""
        return {**asdict(self), "level": self.level.value}


def ok(check: str, what: str) -> DoctorFinding:
    """Makes a finding that is no trouble."""
    return DoctorFinding(check, Level.OK, what)


def warning(check: str, what: str, why: str, do: str) -> DoctorFinding:
    """Makes a finding that may become one."""
    return DoctorFinding(check, Level.WARNING, what, why, do)


def wrong(check: str, what: str, why: str, do: str) -> DoctorFinding:
    """Makes a finding that is to be mended."""
    return DoctorFinding(check, Level.WRONG, what, why, do)
