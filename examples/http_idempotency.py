"""Payments are sent to an HTTP server that honours Idempotency-Key, and none is made twice.

    oncegate serve                            # in another terminal
    python examples/http_idempotency.py --payments https://payments.example/charges

A request without an answer says nothing: the payment may have been made. It is sent again under its key, and the server
answers as it answered the first. The gateway remembers what is done: a later run sends nothing.
"""

import argparse
import json
from contextlib import closing

from oncegate_spark import Gateway, InDoubt
from oncegate_spark.delivery import Delivered, Delivery, HttpSink, Record

NAMESPACE = "payments"
PAYMENTS = ({"payment": "p-1", "cents": 1200}, {"payment": "p-2", "cents": 350}, {"payment": "p-3", "cents": 9900})


def pay(gateway: Gateway, address: str) -> Delivered:
    """Make each payment that was not made."""
    records = [Record(payment["payment"], json.dumps(payment).encode()) for payment in PAYMENTS]
    headers = {"Content-Type": "application/json"}
    with closing(HttpSink(address, headers=headers, timeout_ms=2_000)) as sink:
        # A dead run's claims are waited for as long as its lease runs: a second here, for the sake of the example.
        return Delivery(gateway, sink, lease_ms=1_000).deliver(records)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="the gateway")
    parser.add_argument("--payments", required=True, help="the server that takes payments")
    given = parser.parse_args()
    with Gateway(given.url, namespace=NAMESPACE) as gateway:
        gateway.create_namespace()  # no effect where it is there already
        try:
            done = pay(gateway, given.payments)
        except InDoubt as error:
            raise SystemExit(f"run again later: {error}") from error
    print(f"{done.written} payments made, {done.duplicates} were made before")


if __name__ == "__main__":
    main()
