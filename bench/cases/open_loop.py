"""Latencies of claims that come at intended times, whether or not the ones before were answered."""

from collections.abc import Mapping
from typing import Any

from bench.cases.setting import Setting
from bench.load.server import Served
from bench.report.figures import Figure

# The points that are measured: ids a request, and the clients whose closed loop the search for the peak begins at.
PEAKS = ((1_000, 16), (10_000, 16))
# Connections of the open loop: enough that a free one is there while latencies are what they should be.
OPEN_CLIENTS = 64
# The open loop's search for its peak: shares of the closed loop's, until one is kept up with.
OPEN_SHARES = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
# An open loop has kept up when its last answer came so soon after its time.
KEPT_UP_S = 0.1


def figures(setting: Setting, ids: int, peak: float) -> list[Figure]:
    """Latencies from the intended send time at half of the highest rate that an open loop keeps up with.

    peak: of the closed loop, ids a second; the search for the open one's begins there.
    """
    name = f"open loop at half of its peak, {ids:,} ids a request"
    setting.tell(name)
    with setting.serving(name) as servers:
        job = {"ids": ids, "clients": OPEN_CLIENTS, "live": servers.live}
        open_peak = _open_peak(setting, servers.gateway, peak, job)
        setting.settle(servers.gateway)
        rate = max(1.0, open_peak / 2 / ids)
        row = setting.load.run(servers.gateway, "packed", rate=rate, seconds=setting.plan.open_seconds, **job)
    said = [Figure(f"{name}: {quantile}", row[f"{quantile}_ms"], "ms") for quantile in ("p50", "p99")]
    return [*said, Figure(f"{name}: rate", row["rate"], "ids/s"), Figure(f"{name}: its peak", open_peak, "ids/s")]


def _open_peak(setting: Setting, gateway: Served, closed_peak: float, job: Mapping[str, Any]) -> float:
    """The highest of some shares of the closed loop's peak whose answers come in time, ids a second."""
    for share in OPEN_SHARES:
        rate = share * closed_peak / job["ids"]
        row = setting.load.run(gateway, "packed", rate=rate, seconds=2 * setting.plan.seconds, **job)
        if row["late_s"] <= KEPT_UP_S:
            return share * closed_peak
    raise RuntimeError(f"an open loop of {rate:,.0f} requests a second was not kept up with")
