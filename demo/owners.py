"""Runs the gateway that owns the ledger, and its standby."""

import time
from collections.abc import Callable
from pathlib import Path

from demo.processes import GatewayProcess, tail

# A standby first reads the ledger; a takeover first waits until the owner has been silent for its timeout.
_WAIT_S_MAX = 120
_POLL_S = 0.05


class Owners:
    """Gateways over one ledger on servers: `owner` serves, and there may be a standby.

    A context manager, which stops both. `witnessed`: each has its own witness.
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
        """Starts a standby if there is none; returns once it listens. Raises RuntimeError with the end of its log."""
        if self._standby is None:
            self._standby = self._another()
            self._standby.start("--standby")

    def await_standby(self) -> bool:
        """Waits until the standby is ready to take over every namespace; false on timeout. Thread-safe."""

        def stands_by() -> bool:
            states = {} if self._standby is None else self._standby.readiness()[1]
            return bool(states) and set(states.values()) == {"STANDBY"}

        return _until(stands_by)

    def revive(self) -> bool:
        """Replaces an ended owner: the standby takes over (returns true), or the same gateway is restarted (false).

        Returns once it serves. Raises RuntimeError with the end of its log on timeout.
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
        """Returns the log of the gateway that was created last."""
        return self._logs / f"gateway-{self._made}.log"


def _until(is_so: Callable[[], bool]) -> bool:
    end = time.monotonic() + _WAIT_S_MAX
    while not (so := is_so()) and time.monotonic() < end:
        time.sleep(_POLL_S)
    return so
