"""Writes a receipt for each order once, however often the worker dies and is run again.

    oncegate serve                            # in another terminal
    python examples/python_worker.py --folder /tmp/receipts

Orders are lines of a file, some of them repeated. A receipt is a file in the folder. If the worker was killed after a
receipt and before its completion at the gateway, the next worker learns that the order is in doubt, and finds the
receipt in the folder.
"""

import argparse
import json
from pathlib import Path

from oncegate_spark import Gateway
from oncegate_spark.delivery import Delivery, FolderSink, Record

NAMESPACE = "receipts"
ORDERS = ({"order": "a-1", "cents": 1200}, {"order": "a-2", "cents": 350}, {"order": "a-1", "cents": 1200})


def receipts(orders: Path) -> list[Record]:
    """Returns the receipt of each line, with the order's number as its id."""
    found = map(json.loads, orders.read_text().splitlines())
    return [Record(order["order"], f"{order['order']}: {order['cents'] / 100:.2f}\n".encode()) for order in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="the gateway")
    parser.add_argument("--folder", required=True, type=Path, help="for the orders and the receipts")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    orders = given.folder / "orders.jsonl"
    if not orders.exists():
        orders.write_text("".join(f"{json.dumps(order)}\n" for order in ORDERS))
    with Gateway(given.url, namespace=NAMESPACE) as gateway:
        gateway.create_namespace()  # no effect if it exists
        sink = FolderSink(given.folder / "receipts", suffix=".txt")
        # The claims of a dead worker block until their lease expires; the lease is short to keep the example fast.
        done = Delivery(gateway, sink, lease_ms=1_000).deliver(receipts(orders))
    print(f"{done.written} receipts written, {done.found} found, {done.duplicates} were there")


if __name__ == "__main__":
    main()
