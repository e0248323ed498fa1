"""Replies of the gateways of walks, and the exception for a broken promise."""

from dataclasses import dataclass

from oncegate.core.verdicts import VerdictRow


class Broken(Exception):
    """A broken property: P1..P6, LOSS or another name of the model's checks."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.property = name


@dataclass(frozen=True)
class ClaimReply:
    """A reply with one verdict per distinct id of the request, in order."""

    claim: bytes | None
    verdicts: dict[int, VerdictRow]

    def __str__(self) -> str:
        return ", ".join(
            f"{i}:{row.verdict.name}{''.join('+' + flag.name for flag in row.flags if flag.name)}"
            for i, row in self.verdicts.items()
        )


@dataclass(frozen=True)
class SettleReply:
    settled: int
    taken_over: int

    def __str__(self) -> str:
        return f"{self.settled} settled, {self.taken_over} taken over"
