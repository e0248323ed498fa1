"""All time in the service comes from its clock, so that tests turn it. Ruff bans the functions of `time` and `asyncio`
(service/ruff.toml); here is what it cannot see."""

import re

from tests.support.tree import ROOT, sources

# `loop.time()`, whatever the loop is called.
_READ = re.compile(r"\.time\(\)")


def test_only_the_clock_reads_the_time_of_a_loop() -> None:
    readers = {str(path.relative_to(ROOT)) for path in sources("service") if _READ.search(path.read_text())}
    assert readers == {"service/oncegate/clock.py"}
