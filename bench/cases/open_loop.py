"""Measures latencies of claims sent at intended times, whether or not earlier ones were answered."""

from collections.abc import Mapping
from typing import Any

from bench.cases.setting import Setting
from bench.load.server import Served
from bench.report.figures import Figure

# The measured points: ids per request, and the clients of the closed loop at whose peak the search begins.
PEAKS = ((1_000, 16), (10_000, 16))
# Connections of the open loop: enough that one is free while latencies are normal.
OPEN_CLIENTS = 64
# Shares of the closed loop's peak that the search for the open loop's peak tries in order.
OPEN_SHARES = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
# The gateway keeps up with an open loop if the last response is at most this late.
KEPT_UP_S = 0.1


def figures(setting: Setting, ids: int, peak: float) -> list[Figure]:
    """Measures latencies from the intended send time, at half of the open loop's peak rate.

    peak: the closed loop's peak, ids per second, at which the search for the open loop's begins.
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
    """Returns the highest tried share of the closed loop's peak with which the gateway keeps up, in ids per second."""
    for share in OPEN_SHARES:
        rate = share * closed_peak / job["ids"]
        row = setting.load.run(gateway, "packed", rate=rate, seconds=2 * setting.plan.seconds, **job)
        if row["late_s"] <= KEPT_UP_S:
            return share * closed_peak
    raise RuntimeError(f"an open loop of {rate:,.0f} requests a second was not kept up with")
