"""Packed claims over gRPC beside the same over HTTP, at one gateway: a stream that is read ahead, and calls."""

from bench.cases.claims import beside
from bench.cases.setting import BATCH, Setting
from bench.load.server import gateway
from bench.load.settled import wait_until_quiet
from bench.report.figures import Figure, interleaved
from bench.report.reaches import HTTP_PACKED
from deploy.ports import free_port

IDS, CLIENTS = 10_000, 16


def figures(setting: Setting) -> list[Figure]:
    """A figure for streams, one for calls, each beside HTTP with as many requests in flight."""
    name = f"packed, {IDS:,} ids, {CLIENTS} in flight"
    setting.tell(f"claim over gRPC, {name}")
    port = free_port()
    with gateway(setting.scratch("grpc"), settings={"ONCEGATE_GRPC_PORT": str(port)}) as served:
        setting.load.run(served, "prefill", live=setting.plan.live, ids=BATCH, text=False)
        wait_until_quiet(served)
        job = {"ids": IDS, "clients": CLIENTS, "seconds": setting.plan.seconds, "live": setting.plan.live}
        works = {
            "streams": lambda: setting.load.run(served, "grpc_streams", grpc_port=port, **job),
            "calls": lambda: setting.load.run(served, "grpc_calls", grpc_port=port, **job),
            HTTP_PACKED: lambda: setting.load.run(served, "packed", **job),
        }
        found = interleaved(setting.plan.rounds, works)
    http = found.pop(HTTP_PACKED)
    return [
        one
        for way, row in found.items()
        for one in beside(f"claim over gRPC by {way}, {name}", {"": row, HTTP_PACKED: http})
    ]
