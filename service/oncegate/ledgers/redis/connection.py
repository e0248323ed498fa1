"""Sends commands to a Redis server over one connection, and distinguishes refusals from unknown outcomes.

    Refused       the server refused the command (see `Refused.is_definite` for its effect)
    Unreachable   nothing was sent: there is no connection, or the server must not hold a ledger
    Lost          the command was sent, and its outcome is unknown

All are OSErrors; their text is logged.

redis-py's client resends commands that got no answer. Its `Connection` does not, and is therefore used here.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from redis.asyncio.connection import Connection, SSLConnection
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    MasterDownError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from oncegate.core.errors import LedgerDown
from oncegate.ledgers.redis.address import Address
from oncegate.ledgers.redis.scripts import Script
from oncegate.ledgers.redis.server import Server, Unfit, parse_config, parse_info

_INFO = ("INFO", "server", "replication", "memory", "persistence", "cluster")
_CONFIG = ("CONFIG", "GET", "appendfsync", "min-replicas-to-write")
# Errors that a server raises before it begins a command or a script; none of them stops a script midway.
_BEFORE = (
    AuthenticationError,
    BusyLoadingError,
    MasterDownError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
)
_BEFORE_CODES = ("MISCONF ", "NOREPLICAS ", "BUSY ", "NOAUTH ", "WRONGPASS ")
# Options of the URL by redis-py's names.
_TLS = {"ssl_cafile": "ssl_ca_certs", "ssl_certfile": "ssl_certfile", "ssl_keyfile": "ssl_keyfile"}
Value = bytes | memoryview | str | int


class Refused(OSError):
    """The server refused a command. `is_definite`: it had no effect; otherwise it failed midway."""

    def __init__(self, error: RedisError) -> None:
        super().__init__(str(error))
        self.is_definite = isinstance(error, _BEFORE) or str(error).startswith(_BEFORE_CODES)


class Unreachable(ConnectionError):
    """Nothing was sent: the server cannot be reached, or must not hold a ledger."""


class OtherServer(Unreachable):
    """The server has restarted or was replaced by a different server: its data must be read again. Nothing was sent."""


class Lost(ConnectionError):
    """A command was sent and not answered in time: its outcome is unknown."""


def unusable(address: Address, error: OSError) -> LedgerDown:
    """Returns the error for a server that cannot be reached or must not hold a ledger;
    the error's text contains the URL once.
    """
    said = str(error).removeprefix(address.shown).removeprefix(":").strip()
    return LedgerDown(f"{address.shown} cannot be used now: {said}")


class Link:
    """A connection to a server, opened at the first call and again after each loss;
    runs one call at a time. Call `close` last.

    `run_id`: of the only server that this link accepts; None: the first server it connects to. `any_server`: accepts
    another server at each connection.
    """

    def __init__(self, address: Address, run_id: str | None = None, *, any_server: bool = False) -> None:
        self._any_server = any_server
        self._address = address
        self.run_id = run_id
        self._one = asyncio.Lock()
        self._connection: Any = None
        self.server: Server | None = None
        # Number of connections so far. A fence is valid for one connection only.
        self.connections = 0

    @property
    def is_connected(self) -> bool:
        """True if a connection was opened and not closed; it may have failed unnoticed."""
        return self._connection is not None

    async def connect(self) -> Server:
        """Connects if necessary; returns the server's answers to INFO and CONFIG GET. Raises Unreachable."""
        async with self._one:
            return await self._connected()

    async def call(self, *arguments: Value) -> Any:
        """Sends a command and returns its answer. Raises Refused, Unreachable, Lost."""
        (answer,) = await self.calls([arguments])
        return answer

    async def calls(self, commands: Sequence[Sequence[Value]]) -> list[Any]:
        """Sends commands as one pipeline, and returns their answers in order.

        Raises Refused: the first refused command's error; the other commands were executed. Unreachable, Lost.
        """
        async with self._one:
            await self._connected()
            return _answers(await self._exchanged(commands))

    async def ask(self, *arguments: Value) -> Any:
        """Sends a read-only command, and retries it once if it was lost. Raises as `call`."""
        return (await self.asks([arguments]))[0]

    async def asks(self, commands: Sequence[Sequence[Value]]) -> list[Any]:
        """Sends read-only commands as one pipeline. Raises as `calls`.

        Retries once if they were lost, since the server may have closed an idle connection.
        """
        try:
            return await self.calls(commands)
        except Lost:
            return await self.calls(commands)

    async def run(self, script: Script, keys: Sequence[str], *arguments: Value) -> Any:
        return (await self.run_then(script, keys, arguments, ()))[0]

    async def run_then(
        self,
        script: Script,
        keys: Sequence[str],
        arguments: Sequence[Value],
        then: Sequence[Sequence[Value]],
        more_ms: int = 0,
    ) -> list[Any]:
        """Sends a script and the commands `then` as one pipeline; returns all answers.

        `more_ms`: time for the commands beyond `reply_ms`; their refusals are among the answers.

        Raises Refused, for the script only; Unreachable, Lost.
        """
        command = ("EVALSHA", script.sha1, len(keys), *keys, *arguments)
        async with self._one:
            await self._connected()
            answers = await self._exchanged([command, *then], more_ms)
            if isinstance(answers[0], NoScriptError):
                # The script is not in the server's cache; the script did not run.
                answers = await self._exchanged([("SCRIPT", "LOAD", script.text), command, *then], more_ms)
                answers = answers[1:]
            return [*_answers(answers[:1]), *answers[1:]]

    async def read(self, script: Script, keys: Sequence[str], *arguments: Value) -> Any:
        """Runs a read-only script, and retries it once if it was lost. Raises as `run_then`."""
        try:
            return await self.run(script, keys, *arguments)
        except Lost:
            return await self.run(script, keys, *arguments)

    async def look(self) -> Server:
        """Requests the server's answers to INFO and CONFIG GET again, and returns them. Raises Unreachable, Lost."""
        async with self._one:
            await self._connected()
            try:
                return await self._looked()
            except Unfit as error:
                await self._drop()
                raise Unreachable(f"{self._address.shown}: {error}") from error

    async def drop(self) -> None:
        """Closes the connection; the next call opens a new one."""
        async with self._one:
            await self._drop()

    close = drop

    async def _connected(self) -> Server:
        if self._connection is None:
            try:
                await self._connect()
            except BaseException:
                await self._drop()
                raise
        assert self.server is not None
        return self.server

    async def _connect(self) -> None:
        shown = self._address.shown
        try:
            async with asyncio.timeout(self._address.reply_ms / 1_000):
                self._connection = _connection(self._address)
                await self._connection.connect()
                server = await self._looked()
        except (RedisError, OSError, Lost, Unfit) as error:
            raise Unreachable(f"{shown}: {_reason(error)}") from error
        if self.run_id not in (None, server.run_id) and not self._any_server:
            raise OtherServer(f"{shown} was started anew, or is another server than before")
        self.run_id = server.run_id
        self.connections += 1

    async def _looked(self) -> Server:
        info, config = await self._exchanged([_INFO, _CONFIG])
        if isinstance(info, RedisError):
            raise Unfit(f"it does not say what it is ({info}): allow INFO")
        found = parse_config(config) if isinstance(config, list) else {}
        self.server = Server(parse_info(info), found)
        self.server.require_fit()
        return self.server

    async def _exchanged(self, commands: Sequence[Sequence[Value]], more_ms: int = 0) -> list[Any]:
        """Sends commands and returns their answers in order; refusals are returned as exceptions.

        Closes the connection on any other failure. Raises Lost.
        """
        connection, answers = self._connection, list[Any]()
        try:
            async with asyncio.timeout((self._address.reply_ms + more_ms) / 1_000):
                await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
                while len(answers) < len(commands):
                    answers.append(await _answer(connection))
        except (RedisError, OSError) as error:
            await self._drop()
            raise Lost(f"{self._address.shown} gave no answer ({_reason(error)})") from error
        except BaseException:
            await self._drop()
            raise
        return answers

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)


def _reason(error: Exception) -> str:
    """Describes an error; timeouts and closed connections have no text of their own."""
    if isinstance(error, TimeoutError):
        return "no answer within reply_ms"
    return str(error) or type(error).__name__


def _connection(address: Address) -> Any:
    settings: dict[str, Any] = {
        "host": address.host,
        "port": address.port,
        "db": address.db,
        "username": address.user,
        "password": address.password(),
        # Timeouts apply to whole exchanges instead.
        "socket_timeout": None,
        "socket_connect_timeout": None,
        "protocol": 2,
        "driver_info": None,
    }
    if not address.tls:
        return Connection(**settings)
    for name, argument in _TLS.items():
        path = getattr(address, name)
        settings[argument] = None if path is None else str(path)
    return SSLConnection(**settings)


async def _answer(connection: Any) -> Any:
    try:
        return await connection.read_response()
    except (BusyLoadingError, ResponseError) as error:
        # BusyLoadingError is an answer too, although redis-py derives it from ConnectionError.
        return error


def _answers(answers: list[Any]) -> list[Any]:
    for answer in answers:
        if isinstance(answer, RedisError):
            raise Refused(answer) from answer
    return answers
