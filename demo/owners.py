"""The gateway that owns the ledger, and the one that stands by to follow it."""

import time
from collections.abc import Callable
from pathlib import Path

from demo.processes import GatewayProcess, tail

# A standby reads the ledger first; a takeover waits until the owner was silent for long enough, and opens the ledger.
_WAIT_S_MAX = 120
_POLL_S = 0.05


class Owners:
    """Gateways over one ledger on servers: `owner` serves; there may be a standby. A context manager, which ends both.

    `witnessed`: each keeps a witness of its own.
    """

    def __init__(self, folder: Path, logs: Path, ledger: str, *, witnessed: bool = False) -> None:
        self._folder, self._logs, self._ledger, self._witnessed = folder, logs, ledger, witnessed
        self._made = 0
        self._standby: GatewayProcess | None = None
        self.owner = self._another()

    def __enter__(self) -> "Owners":
        try:
            self.owner.start()
            self._await_owner()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for gateway in filter(None, (self._standby, self.owner)):
            gateway.stop()

    def stand_by(self) -> None:
        """Starts a standby where there is none; returns when it listens. Raises RuntimeError with its log's end."""
        if self._standby is None:
            self._standby = self._another()
            self._standby.start("--standby")

    def await_standby(self) -> bool:
        """Waits until the standby stands by in every namespace; False where it does not. From any thread."""

        def stands_by() -> bool:
            states = {} if self._standby is None else self._standby.readiness()[1]
            return bool(states) and set(states.values()) == {"STANDBY"}

        return _until(stands_by)

    def revive(self) -> bool:
        """After the owner's end: the standby takes over (True), or the same gateway starts again (False).

        Returns when it serves. Raises RuntimeError with the end of its log where it does not.
        """
        by_standby = self._standby is not None
        if self._standby is None:
            self.owner.start()
        else:
            self.owner, self._standby = self._standby, None
        self._await_owner()
        return by_standby

    def _await_owner(self) -> None:
        if not _until(lambda: self.owner.readiness()[0] == 200):
            raise RuntimeError(f"no gateway serves; {self._log()} ends:\n{tail(self._log())}")

    def _another(self) -> GatewayProcess:
        self._made += 1
        folder = self._folder / str(self._made)
        options = ("--witness", str(folder / "witness")) if self._witnessed else ()
        return GatewayProcess(folder, self._log(), self._ledger, options)

    def _log(self) -> Path:
        """Of the gateway that was made last."""
        return self._logs / f"gateway-{self._made}.log"


def _until(is_so: Callable[[], bool]) -> bool:
    end = time.monotonic() + _WAIT_S_MAX
    while not (so := is_so()) and time.monotonic() < end:
        time.sleep(_POLL_S)
    return so
