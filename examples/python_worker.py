"""A worker writes a receipt for each order, once, however often it dies and is run again.

    oncegate serve                            # in another terminal
    python examples/python_worker.py --folder /tmp/receipts

Orders come as lines of a file, and some of them twice. A receipt is a file in the folder. Where the worker was killed
between a receipt and telling the gateway, the next one is told that it is in doubt, and finds it in the folder.
"""

import argparse
import json
from pathlib import Path

from oncegate_spark import Gateway
from oncegate_spark.delivery import Delivery, FolderSink, Record

NAMESPACE = "receipts"
ORDERS = ({"order": "a-1", "cents": 1200}, {"order": "a-2", "cents": 350}, {"order": "a-1", "cents": 1200})


def receipts(orders: Path) -> list[Record]:
    """The receipt of each line, under the order's number."""
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
        gateway.create_namespace()  # no effect where it is there already
        sink = FolderSink(given.folder / "receipts", suffix=".txt")
        # A dead worker's claims are waited for as long as its lease runs: a second here, for the sake of the example.
        done = Delivery(gateway, sink, lease_ms=1_000).deliver(receipts(orders))
    print(f"{done.written} receipts written, {done.found} found, {done.duplicates} were there")


if __name__ == "__main__":
    main()
