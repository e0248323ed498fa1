"""Sends payments to an HTTP server that honours Idempotency-Key; none is made twice.

    oncegate serve                            # in another terminal
    python examples/http_idempotency.py --payments https://payments.example/charges

If a request gets no response, its effect is unknown: the payment may have been made. It is sent again with its key, and
the server repeats its first response. The gateway remembers completed payments, so a later run sends nothing.
"""

import argparse
import json
from contextlib import closing

from oncegate_spark import Gateway, InDoubt
from oncegate_spark.delivery import Delivered, Delivery, HttpSink, Record

NAMESPACE = "payments"
PAYMENTS = ({"payment": "p-1", "cents": 1200}, {"payment": "p-2", "cents": 350}, {"payment": "p-3", "cents": 9900})


def pay(gateway: Gateway, address: str) -> Delivered:
    """Makes each payment that was not made yet."""
    records = [Record(payment["payment"], json.dumps(payment).encode()) for payment in PAYMENTS]
    headers = {"Content-Type": "application/json"}
    with closing(HttpSink(address, headers=headers, timeout_ms=2_000)) as sink:
        # The claims of a dead run block until their lease expires; the lease is short to keep the example fast.
        return Delivery(gateway, sink, lease_ms=1_000).deliver(records)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="the gateway")
    parser.add_argument("--payments", required=True, help="the server that takes payments")
    given = parser.parse_args()
    with Gateway(given.url, namespace=NAMESPACE) as gateway:
        gateway.create_namespace()  # no effect if it exists
        try:
            done = pay(gateway, given.payments)
        except InDoubt as error:
            raise SystemExit(f"run again later: {error}") from error
    print(f"{done.written} payments made, {done.duplicates} were made before")


if __name__ == "__main__":
    main()
