"""Sends packed claims over gRPC with grpc.aio: as calls, and as streams with READ_AHEAD requests in flight.

Runs in the load process; messages are prepared before the clock starts.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np

from bench.load import bodies
from bench.load.told import told
from oncegate.transports.grpc import gateway_pb2 as pb
from oncegate.transports.grpc.streams import READ_AHEAD

Job = dict[str, Any]
# Above the actual rates; with _PREPARED_BYTES they bound the prepared messages.
_RATE, _CALLS_PER_SECOND, _PREPARED_BYTES = 6e6, 20_000, 256 << 20
CLAIM, _STREAM = "/oncegate.v1.ClaimService/Claim", "/oncegate.v1.ClaimService/StreamClaims"
_GRANTED, _SAMPLE_EVERY = 1, 20


@dataclass
class Run:
    """The messages of a run, and its results so far."""

    job: Job
    channel: Any
    left: Iterator[tuple[int, bytes]]
    begin_s: float = 0.0
    latencies_s: list[float] = field(default_factory=list)
    wrong: int = 0

    @property
    def is_over(self) -> bool:
        """Returns whether the time of the run is over."""
        return time.perf_counter() - self.begin_s > self.job["seconds"]

    def answered(self, number: int, since_s: float, verdicts: bytes) -> None:
        """Records a response; checks the verdicts of a sample."""
        self.latencies_s.append(time.perf_counter() - since_s)
        if number % _SAMPLE_EVERY == 0:
            ids = self.job["ids"]
            said = np.frombuffer(verdicts, np.uint8) == _GRANTED
            self.wrong += int((said == bodies.is_known(number * ids, ids)).sum())


def calls(job: Job, go: Callable[[], None]) -> dict[str, float]:
    """Runs `clients` tasks on one channel, each with one call in flight."""
    return asyncio.run(_measured(job, _messages(job, streamed=False), _by_calls, job["clients"], go))


def streams(job: Job, go: Callable[[], None]) -> dict[str, float]:
    """Runs `clients` / READ_AHEAD streams, which together have `clients` requests in flight."""
    return asyncio.run(_measured(job, _messages(job, streamed=True), _by_stream, job["clients"] // READ_AHEAD, go))


def _messages(job: Job, streamed: bool) -> list[bytes]:
    ids = job["ids"]
    rate = min(_RATE / ids, _CALLS_PER_SECOND)
    count = min(int(rate * job["seconds"]) + job["clients"] + 1, _PREPARED_BYTES // (16 * ids))
    every, token = bodies.mixed(job["stream"], ids * count, job["live"]), np.random.default_rng([job["stream"], 1])
    messages = []
    for call in range(count):
        packed = every[call * ids : (call + 1) * ids].tobytes()
        claim = pb.ClaimRequest(namespace="default", token=token.bytes(16), call=call, packed=packed)
        messages.append((pb.StreamClaimsRequest(claim=claim) if streamed else claim).SerializeToString())
    return messages


async def _measured(
    job: Job, messages: list[bytes], claim_once: Callable[[Run], Awaitable[None]], tasks: int, go: Callable[[], None]
) -> dict[str, float]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{job['grpc_port']}") as channel:
        await channel.channel_ready()
        run = Run(job, channel, iter(enumerate(messages)))
        go()
        run.begin_s = time.perf_counter()
        await asyncio.gather(*(claim_once(run) for _ in range(tasks)))
        return told(run.latencies_s, job["ids"], time.perf_counter() - run.begin_s, run.wrong)


async def _by_calls(run: Run) -> None:
    call = run.channel.unary_unary(CLAIM, None, pb.ClaimResponse.FromString)
    for number, message in run.left:
        since_s = time.perf_counter()
        run.answered(number, since_s, (await call(message)).verdicts)
        if run.is_over:
            return


async def _by_stream(run: Run) -> None:
    stream = run.channel.stream_stream(_STREAM, None, pb.StreamClaimsResponse.FromString)()
    room, sent = asyncio.Semaphore(READ_AHEAD), deque[tuple[int, float]]()

    async def send() -> None:
        for number, message in run.left:
            await room.acquire()
            if run.is_over:
                break
            sent.append((number, time.perf_counter()))
            await stream.write(message)
        await stream.done_writing()

    sending = asyncio.create_task(send())
    async for answer in stream:
        room.release()
        run.answered(*sent.popleft(), answer.claim.verdicts)
    await sending
