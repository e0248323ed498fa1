"""Captions of the bench's picture: how to read the bars, and the conditions of the measurement."""

from bench.report.panels import OF_SECTIONS, Panel

_HOW = (
    "Right of 1×: so many times better than the peer in the same run; left of it: worse. Beside each bar Oncegate's",
    "number and the peer's. Scales are logarithmic.",
)
_WHOLE = (
    "Claims are on disk before either side answers; Redis is asked in",
    "the fastest of the ways measured: MULTI with SADD, Lua, pipelined SET NX by a raw socket. Spark has all cores.",
)
# Captions of runs of a single section, by the name under which a page quotes them.
_SECTIONS = {
    "bench-kafka": (
        "One broker, which acknowledges from memory, shares the two cores;",
        "a core's second counts client and gateway, or the producer, and no broker. Spark has all cores.",
    ),
    "bench-redis": (
        "The ledger's Redis and the broker share a core with the load.",
        "Redis syncs each append before its answer, as the log does; the broker never does.",
    ),
    "bench-grpc": (
        "As many requests are in flight either way, at one gateway.",
        "Claims are on disk before either side answers.",
    ),
    "bench-traces": (
        "Spans go by OTLP to a receiver that keeps nothing.",
        "Counted is the processor time of the gateway alone.",
    ),
    "bench-verifier": (
        "Each is a process on all cores, from its start to its answer.",
        "The peers read a dump of the topic, made before, and ask no ledger; verify reads the topic and asks for ids.",
    ),
}


def caption(first: Panel) -> tuple[str, str, str]:
    """Returns the three lines below a picture that begins with this panel."""
    names = [name for name, panels in OF_SECTIONS.items() if first in panels]
    second, third = _SECTIONS[names[0]] if names else _WHOLE
    return _HOW[0], f"{_HOW[1]} {second}", third


def title(first: Panel) -> str:
    """Returns the title of a picture that begins with this panel."""
    where = "" if first in OF_SECTIONS["bench-verifier"] else " on one core"
    return f"Oncegate{where}, beside what one would use instead"
