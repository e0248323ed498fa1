"""Run one or three Apache Kafka brokers until Ctrl-C: `make kafka`, ARGS="--brokers 3".

What they hold stays in --data for the next start.
"""

import argparse
import signal
import sys
import time
from pathlib import Path

from deploy.kafka.cluster import BrokerDied, Cluster
from deploy.kafka.jars import JarsMissing, fetched

DATA = Path(__file__).parents[2] / "out/kafka"
FIRST_PORT = 9092


def main() -> int:
    """Starts the brokers that the command line asks for, and stops them at its end; the exit status."""
    parser = argparse.ArgumentParser(prog="make kafka", description=__doc__)
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1, help="how many (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=FIRST_PORT, help="the first broker's, 0 for a free one (default: %(default)s)"
    )
    parser.add_argument("--data", type=Path, help="what they hold (default: out/kafka-1 or -3)")
    options = parser.parse_args()
    folder = (options.data or DATA.with_name(f"kafka-{options.brokers}")).resolve()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        print("fetching Apache Kafka's jars (once; half a minute)", file=sys.stderr)
        fetched()
        began_s = time.monotonic()
        with Cluster(folder, options.brokers, options.port) as cluster:
            print(f"brokers at {cluster.bootstrap} after {time.monotonic() - began_s:.1f} s, data in {folder}")
            print("Ctrl-C stops them", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except (JarsMissing, BrokerDied) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
