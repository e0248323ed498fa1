"""Runs a real gateway in a thread of this process, for the tests of programs that use one.

with LocalGateway() as gateway:
    run_what_is_tested(gateway.url)
"""

import asyncio
import io
import tempfile
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from oncegate.core.errors import SettingsError
from oncegate.runtime.logging import open_log
from oncegate.settings import ProcessSettings, SemanticSettings, Settings

START_MS = 60_000  # the first start on a machine compiles the kernels
STOP_MS = 30_000
SHUTDOWN_MS = 5_000  # how long a stop waits for callers that are being answered


class LocalGateway:
    """A gateway like `oncegate serve` on a free port of 127.0.0.1; `restart` keeps the port.

    ledger: None: a log in a temporary folder that `close` removes; `memory:`: none; `log:<folder>`: a permanent one.
    Further arguments are settings (`lease_ms=1_000`). Environment and settings file are ignored, since they may name a
    real ledger's witness. Usable once as a context manager, and from a pytest fixture.

    Raises SettingsError for invalid arguments, RuntimeError if it does not start. Nothing is left open.
    """

    def __init__(self, ledger: str | None = None, *, start_ms: int = START_MS, **settings: Any) -> None:
        self._start_ms = start_ms
        self._given = settings
        self._kept = ExitStack()
        self._ledger = ledger
        self._running: _Running | None = None
        self.port = 0
        _settings("memory:", 0, settings)  # raises for invalid settings before anything is opened

    @property
    def url(self) -> str:
        """Returns the base URL; available after the start."""
        assert self.port, "not started: use it in a with block, or call start()"
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """Returns the log lines since the last start."""
        return "" if self._running is None else self._running.lines.getvalue()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def start(self) -> Self:
        """Starts the gateway, and waits until it answers."""
        assert self._running is None, "it runs already"
        if self._ledger is None:
            folder = self._kept.enter_context(tempfile.TemporaryDirectory(prefix="oncegate-"))
            self._ledger = f"log:{Path(folder) / 'data'}"
        self._running = _Running(_settings(self._ledger, self.port, self._given))
        try:
            self.port = self._running.start(self._start_ms)
        except BaseException:
            self.close()
            raise
        return self

    def restart(self) -> None:
        """Restarts the gateway on the same ledger and port. Answered requests are kept; claims get a full lease."""
        if self._ledger == "memory:":
            raise RuntimeError("a ledger in memory is empty after a restart: restart one in a folder; nothing was done")
        self._stop()
        self.start()

    def close(self) -> None:
        """Finishes requests in flight, stops, and removes the temporary folder. Idempotent."""
        self._stop()
        self._kept.close()

    def _stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.stop()


class _Running:
    """One run of the gateway: a thread, its event loop, and the program in it."""

    def __init__(self, settings: Settings) -> None:
        self.lines = io.StringIO()
        self._settings = settings
        self._port = 0
        self._ready = threading.Event()
        self._failed: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._over = asyncio.Event()
        self._stopped = False
        # A daemon: a start that hangs must not keep the process of a failed test alive.
        self._thread = threading.Thread(target=self._run, name="oncegate-local", daemon=True)

    def start(self, start_ms: int) -> int:
        """Starts the gateway's thread. Returns the port once the gateway answers there."""
        self._thread.start()
        if not self._ready.wait(start_ms / 1000):
            raise RuntimeError(
                f"the local gateway did not start within {start_ms} ms; its log:\n{self.lines.getvalue()}"
            )
        if self._failed is not None:
            raise RuntimeError(f"the local gateway did not start: {self._failed}") from self._failed
        return self._port

    def stop(self) -> None:
        self._stopped = True  # set before the loop is read: `_serve` does both in the opposite order
        if self._loop is not None and not self._loop.is_closed():
            self._call(self._over.set if self._ready.is_set() else self._cancel)
        self._thread.join(STOP_MS / 1000)
        if self._thread.is_alive() and self._ready.is_set():
            raise RuntimeError(f"the local gateway did not stop within {STOP_MS} ms; its log:\n{self.lines.getvalue()}")

    def _call(self, callback: Any) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop has just been closed
            self._loop.call_soon_threadsafe(callback)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _run(self) -> None:
        # Imported here: the imports take a second, and nothing else in this package needs them.
        import uvloop

        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._failed = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        from oncegate.app import announce, running

        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        if self._stopped:
            return
        log = open_log("text", self.lines)
        async with running(self._settings, log) as program:
            announce(program, self._settings.process, log)
            self._port = program.port
            self._ready.set()
            await self._over.wait()


def _settings(ledger: str, port: int, overrides: dict[str, Any]) -> Settings:
    names = SemanticSettings.model_fields.keys() | ProcessSettings.model_fields.keys()
    for name in overrides.keys() - names | overrides.keys() & {"ledger", "port", "host", "port_file"}:
        raise SettingsError(f"there is no setting {name} of a local gateway")
    own = {"shutdown_ms": SHUTDOWN_MS, **overrides, "ledger": ledger, "port": port}
    try:
        return Settings(_Semantic(**own), _Process(**own))
    except ValidationError as error:
        first = error.errors()[0]
        raise SettingsError(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from error


class _GivenOnly(BaseSettings):
    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


class _Semantic(_GivenOnly, SemanticSettings):
    pass


class _Process(_GivenOnly, ProcessSettings):
    pass
