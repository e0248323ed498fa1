"""Compares packed claims over gRPC with HTTP on one gateway, and grpcio's server with grpclib's."""

from bench.cases.claims import beside
from bench.cases.setting import BATCH, Setting
from bench.load.server import Served, gateway, grpc_servers
from bench.load.settled import wait_until_quiet
from bench.report.figures import Figure, interleaved
from bench.report.reaches import HTTP_PACKED
from deploy.ports import free_port, free_ports

IDS, CLIENTS = 10_000, 16
GRPCLIB = "grpclib"


def figures(setting: Setting) -> list[Figure]:
    """Measures gRPC streams and calls, each compared with HTTP at the same number of requests in flight."""
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
        runs = interleaved(setting.plan.rounds, works)
    http = runs.pop(HTTP_PACKED)
    return [
        figure
        for way, row in runs.items()
        for figure in beside(f"claim over gRPC by {way}, {name}", {"": row, HTTP_PACKED: http})
    ]


def libraries(setting: Setting) -> list[Figure]:
    """Measures large claims and single ids with grpcio's server and with grpclib's, over one engine."""
    grpcio_port, grpclib_port = free_ports(2)
    with grpc_servers(setting.scratch("grpc_servers"), grpcio_port, grpclib_port) as served:
        setting.load.run(served, "prefill", live=setting.plan.live, ids=BATCH, text=False)
        wait_until_quiet(served)
        return [figure for ids in (IDS, 1) for figure in _beside(setting, served, ids, grpcio_port, grpclib_port)]


def _beside(setting: Setting, served: Served, ids: int, grpcio_port: int, grpclib_port: int) -> list[Figure]:
    name = f"claim over gRPC, calls by grpcio's server, packed, {ids:,} ids, {CLIENTS} in flight"
    setting.tell(name)
    job = {"ids": ids, "clients": CLIENTS, "seconds": setting.plan.seconds, "live": setting.plan.live}
    works = {
        "": lambda: setting.load.run(served, "grpc_calls", grpc_port=grpcio_port, **job),
        GRPCLIB: lambda: setting.load.run(served, "grpc_calls", grpc_port=grpclib_port, **job),
    }
    return beside(name, interleaved(setting.plan.rounds, works))
