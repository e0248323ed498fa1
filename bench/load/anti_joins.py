"""Finds lost and doubled ids by anti-joins of the input and a dump of the topic, the alternative to `oncegate verify`.

python -m bench.load.anti_joins duckdb|pyarrow INPUT TOPIC COLUMN

Prints as JSON the number of ids missing from the topic, of ids in the topic but not in the input, and of doubled ids.
Neither way reads the ledger, so a lost row and a row that was never written look the same.
"""

import json
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Counts = dict[str, int]


def by_duckdb(source: str, topic: str, column: str) -> Counts:
    """Counts with three queries over the files."""
    import duckdb

    def count(query: str) -> int:
        (number,) = duckdb.execute(query).fetchone() or (0,)
        return int(number)

    left, right = f"read_parquet('{source}')", f"read_parquet('{topic}')"
    return {
        "missing": count(f"SELECT count(*) FROM {left} ANTI JOIN {right} USING ({column})"),
        "foreign": count(f"SELECT count(*) FROM {right} ANTI JOIN {left} USING ({column})"),
        "doubled": count(f"SELECT count(*) FROM (SELECT 1 FROM {right} GROUP BY {column} HAVING count(*) > 1)"),
    }


def by_pyarrow(source: str, topic: str, column: str) -> Counts:
    """Counts with Arrow's hash joins in memory."""
    left, right = (pq.read_table(path, columns=[column]) for path in (source, topic))
    copies = right.group_by(column).aggregate([(column, "count")])
    return {
        "missing": left.join(right, column, join_type="left anti").num_rows,
        "foreign": right.join(left, column, join_type="left anti").num_rows,
        "doubled": copies.filter(pc.greater(copies[f"{column}_count"], pa.scalar(1))).num_rows,
    }


WAYS = {"duckdb": by_duckdb, "pyarrow": by_pyarrow}


def main() -> None:
    """Runs the way named on the command line and prints its counts."""
    way, *paths = sys.argv[1:]
    sys.stdout.write(json.dumps(WAYS[way](*paths)) + "\n")


if __name__ == "__main__":
    main()
