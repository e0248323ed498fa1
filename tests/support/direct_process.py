"""A lane writer in a process that tests kill: python -m tests.support.direct_process URL TOPIC BOOTSTRAP."""

import sys

from oncegate_spark import Gateway
from tests.support.kafka_lanes import rows, writer


def main() -> None:
    """Writes sequences 0 to 9."""
    url, topic, bootstrap = sys.argv[1:]
    with Gateway(url) as gateway:
        writer(gateway, topic, bootstrap=bootstrap).write(rows(*range(10)))


if __name__ == "__main__":
    main()
