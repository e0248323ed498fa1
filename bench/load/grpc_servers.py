"""Serves one gateway through two gRPC servers for Python, grpcio's (grpc.aio) and grpclib, each on its own port.

Both parse, admit and answer packed claims with the gateway's own code, in one process over one engine, so only the
library differs.
"""

import argparse
import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import uvloop
from grpclib.const import Cardinality, Handler
from grpclib.server import Server

from bench.load.grpc_claims import CLAIM
from oncegate.app import running
from oncegate.engine.gateway import Gateway
from oncegate.runtime.logging import open_log
from oncegate.runtime.process import collect_seldom, keep_freed_memory, leave_out_what_is_loaded, share_often
from oncegate.settings import load
from oncegate.transports.grpc import claims
from oncegate.transports.grpc import gateway_pb2 as pb
from oncegate.transports.grpc.calls import head_of
from oncegate.transports.incoming import admit

_SERVICE, _, _METHOD = CLAIM[1:].partition("/")


class Context:
    """The context of a call without deadline, peer or metadata."""

    def time_remaining(self) -> float | None:
        """Returns None: the call has no deadline."""
        return None

    def peer(self) -> str:
        """Returns an empty address."""
        return ""

    def invocation_metadata(self) -> Sequence[tuple[str, str]]:
        """Returns no metadata."""
        return ()


class Claims:
    """The service of packed claims, for either library."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def answer(self, message: Any, _: Any = None) -> Any:
        """Admits and answers a claim like the gateway's own gRPC transport."""
        gateway, body = self._gateway, message.packed
        head = head_of("claimIds", message, body, gateway.limits.body_bytes, Context(), None)
        admitted = await admit(head, body, gateway, claims=True)
        try:
            return await claims.METHODS[_METHOD].work(message, admitted)
        finally:
            admitted.release()

    async def _streamed(self, stream: Any) -> None:
        await stream.send_message(await self.answer(await stream.recv_message()))

    def __mapping__(self) -> dict[str, Handler]:
        """Returns the handlers, for grpclib."""
        return {CLAIM: Handler(self._streamed, Cardinality.UNARY_UNARY, pb.ClaimRequest, pb.ClaimResponse)}


async def serve(data: Path, grpcio_port: int, grpclib_port: int, say_port: Callable[[str], object]) -> None:
    """Serves on both ports, and over HTTP on a free port passed to `say_port`, until cancelled."""
    keep_freed_memory()
    collect_seldom()
    share_often()
    async with running(load(ledger=f"log:{data}", port=0), open_log("text")) as program:
        leave_out_what_is_loaded()
        served = Claims(program.gateway)
        by_grpcio = grpc.aio.server()
        method = grpc.unary_unary_rpc_method_handler(
            served.answer, pb.ClaimRequest.FromString, pb.ClaimResponse.SerializeToString
        )
        by_grpcio.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, {_METHOD: method}),))
        by_grpcio.add_insecure_port(f"127.0.0.1:{grpcio_port}")
        await by_grpcio.start()
        by_grpclib = Server([served])
        await by_grpclib.start("127.0.0.1", grpclib_port)
        say_port(f"{program.port}\n")
        await asyncio.Event().wait()


def main() -> None:
    """Starts the servers that the command line describes."""
    parser = argparse.ArgumentParser(prog="bench.load.grpc_servers")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--grpcio", type=int, required=True)
    parser.add_argument("--grpclib", type=int, required=True)
    parser.add_argument("--port-file", type=Path, required=True)
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(options.data, options.grpcio, options.grpclib, options.port_file.write_text))


if __name__ == "__main__":
    main()
