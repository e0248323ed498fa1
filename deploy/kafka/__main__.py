"""Run one or three Apache Kafka brokers until Ctrl-C: `make kafka`, ARGS="--brokers 3 --sasl --tls --acls".

Their data stays in --data for the next start, with the passwords and certificates for clients.
"""

import argparse
import signal
import sys
import time
from pathlib import Path

from deploy.kafka.access import CLIENT_CERTIFICATES, Access, AccessRefused
from deploy.kafka.cluster import BrokerDied, Cluster
from deploy.kafka.jars import JarsMissing, fetched

DATA = Path(__file__).parents[2] / "out/kafka"
FIRST_PORT = 9092


def main() -> int:
    """Runs the brokers of the command line until a signal; returns the exit status."""
    options = parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        access = Access(options.sasl, options.tls, options.client_certificates, options.acls)
        print("fetching Apache Kafka's jars (once; half a minute)", file=sys.stderr)
        fetched()
        serve(folder_of(options, access), options, access)
    except KeyboardInterrupt:
        return 0
    except AccessRefused as error:
        print(error, file=sys.stderr)
        return 2
    except (JarsMissing, BrokerDied) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make kafka", description=__doc__)
    parser.add_argument(
        "--brokers", type=int, choices=(1, 3), default=1, help="number of brokers (default: %(default)s)"
    )
    parser.add_argument(
        "--port", type=int, default=FIRST_PORT, help="port of the first broker, 0 for a free one (default: %(default)s)"
    )
    parser.add_argument("--sasl", action="store_true", help="require user and password, with SCRAM-SHA-512 or PLAIN")
    parser.add_argument("--tls", action="store_true", help="encrypt, with certificates of a generated authority")
    parser.add_argument(
        "--client-certificates",
        choices=CLIENT_CERTIFICATES,
        default="none",
        help="client certificates, with --tls (default: %(default)s)",
    )
    parser.add_argument("--acls", action="store_true", help="authorize with access control lists; admin has all rights")
    parser.add_argument("--data", type=Path, help="data folder (default: out/kafka-1 or -3, then the options)")
    return parser


def folder_of(options: argparse.Namespace, access: Access) -> Path:
    """Returns the brokers' folder, a separate one for each combination of access options."""
    name = "-".join([f"kafka-{options.brokers}", *str(access).replace("--", "").split()])
    folder: Path = options.data or DATA.with_name(name)
    return folder.resolve()


def serve(folder: Path, options: argparse.Namespace, access: Access) -> None:
    """Runs the brokers until a signal, and prints how to connect."""
    began_s = time.monotonic()
    with Cluster(folder, options.brokers, options.port, access=access) as cluster:
        print(f"brokers at {cluster.bootstrap} after {time.monotonic() - began_s:.1f} s, data in {folder}")
        if access.protocol != "PLAINTEXT":
            print(f"clients connect with {access.query(cluster.files)}")
        print("Ctrl-C stops them", flush=True)
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
