"""How requests are written: their paths, queries, headers and JSON."""

import json
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.columns import Columns, column_names

RetryScope = tuple[str, int]  # a driver, and the number of its batch: ids are forgotten when that is acked

ID_SET = "Oncegate-Id-Set"
JSON = {"Content-Type": codecs.JSON}
_ALWAYS = frozenset({"write_id", "id_set"})


def query(**parameters: str) -> str:
    """Write a query, with its question mark. What is empty is left out, except where the gateway wants to see it."""
    fields = {name: value for name, value in parameters.items() if value or name in _ALWAYS}
    return f"?{urlencode(fields)}" if fields else ""


def located(locate: bool) -> str:
    """Write the query of a request that may ask where the first of each duplicate is."""
    return "?locate=true" if locate else ""


def joined(columns: Columns) -> str:
    """Write the names of columns as one parameter. Raises BadOption."""
    return ",".join(column_names(columns))


def topic_path(topic: str) -> str:
    """Write the path of a topic, below the namespace's."""
    return f"/topics/{quote(topic, safe='')}"


def json_body(fields: Mapping[str, object]) -> bytes:
    """Write a body in JSON; its headers are `JSON`."""
    return json.dumps(fields).encode()


def attempt_headers(token: str, call: int) -> dict[str, str]:
    """Give the headers that say which try of which attempt it is."""
    return {"Oncegate-Token": token, "Oncegate-Call": str(call)}


def scope_headers(scope: RetryScope | None) -> dict[str, str]:
    """Give the headers of a batch that ids belong to; none without one."""
    if scope is None:
        return {}
    driver, batch = scope
    return {"Oncegate-Driver": quote(driver, safe=""), "Oncegate-Batch": str(batch)}


def ids_headers(id_set: str | None) -> dict[str, str]:
    """Give the headers of a request that asks of ids in a set."""
    named = {} if id_set is None else {ID_SET: quote(id_set, safe="")}
    return {"Content-Type": codecs.ARROW, "Accept": codecs.PACKED, **named}
