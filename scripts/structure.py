"""Prints metrics of the code's structure: sizes, folders, private reads, and the files that handle one claim.

    python scripts/structure.py [--large | --walk]

`--large` prints only the files, functions and folders above the usual sizes. They are hints, not limits: keep code that
is read together in one file.

`--walk` starts a gateway on a log ledger in a temporary folder, sends claims of two ids over HTTP, packed and as JSON,
and counts the calls, the files and the changes of file of the 100th claim, from the received bytes to the write of the
response, in all threads (`tests/meta/test_way.py` bounds them).
"""

import ast
import builtins
import itertools
import json
import os
import secrets
import socket
import statistics
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SERVICE = ROOT / "service" / "oncegate"
GENERATED = "generated"
FILE_LINES, FUNCTION_LINES, FOLDER_FILES = 400, 50, 13


def files_of(folder: str) -> list[Path]:
    """Returns the Python files below a folder, without generated ones."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    return [path for path in paths if GENERATED not in path.read_text()[:120].lower()]


def functions_of(path: Path) -> Iterator[tuple[str, int]]:
    """Yields the name and the number of lines of each function, without its docstring."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            said = ast.get_docstring(node, clean=False)
            lines = (node.end_lineno or 0) - node.lineno + 1
            yield node.name, lines - ((first.end_lineno or 0) - first.lineno + 1 if said is not None else 0)


def private_reads(path: Path) -> int:
    """Returns the number of lines that read a private member of anything but self and cls."""
    lines = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            owner = node.value
            if not (isinstance(owner, ast.Name) and owner.id in ("self", "cls")):
                lines.add(node.lineno)
    return len(lines)


def is_forwarder(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Returns whether a function only forwards: its body, without docstring and asserts, is a single call.

    The called function or method is neither built in nor a class, and its arguments are the function's own parameters
    and attributes of self.
    """
    body = [statement for statement in function.body if not isinstance(statement, ast.Assert)]
    if ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    call = body[0].value.value if isinstance(body[0].value, ast.Await) else body[0].value
    if not isinstance(call, ast.Call):
        return False
    name = _root(call.func)
    if name is None or (isinstance(call.func, ast.Name) and (hasattr(builtins, name) or name[0].isupper())):
        return False
    own = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    passed = [*call.args, *(keyword.value for keyword in call.keywords)]
    return all(_is_own(argument.value if isinstance(argument, ast.Starred) else argument, own) for argument in passed)


def _root(node: ast.expr) -> str | None:
    """Returns the name at the start of a chain of attributes; None if it does not start with a name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _is_own(argument: ast.expr, parameters: set[str]) -> bool:
    """Returns whether an argument is one of the parameters, or an attribute of self."""
    return argument.id in parameters if isinstance(argument, ast.Name) else _root(argument) == "self"


def forwarders(folder: str) -> list[str]:
    """Returns the functions that only forward, as file::name."""
    return [
        f"{path.relative_to(ROOT)}::{node.name}"
        for path in files_of(folder)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_forwarder(node)
    ]


def spread(values: list[int]) -> str:
    """Formats the median, the 90th percentile and the maximum of numbers."""
    if not values:
        return "-"
    ninth = sorted(values)[min(len(values) - 1, int(0.9 * len(values)))]
    return f"{statistics.median(values):.0f} / {ninth} / {max(values)}"


def sizes(folder: str) -> str:
    """Returns one row: number of files and lines, and the lengths of files and functions."""
    paths = files_of(folder)
    lines = [len(path.read_text().splitlines()) for path in paths]
    functions = [size for path in paths for _, size in functions_of(path)]
    private = sum(private_reads(path) for path in paths)
    return (
        f"{folder:14} {len(paths):5} files {sum(lines):6} lines   a file {spread(lines):16} "
        f"{len(functions):5} functions, {spread(functions):12}  private reads {private}"
    )


def fullest_folders(folder: str) -> list[tuple[int, str]]:
    """Returns the number of modules in each package, the largest first; `__init__` does not count."""
    packages = {path.parent for path in (ROOT / folder).rglob("*.py")}
    counts = [
        (sum(p.name != "__init__.py" for p in package.glob("*.py")), str(package.relative_to(ROOT)))
        for package in packages
    ]
    return sorted(counts, reverse=True)


def large() -> Iterator[str]:
    """Yields one line for each file, function or folder above the usual size."""
    for folder in ("service", "spark_client", "demo", "bench", "scripts", "tests"):
        for path in files_of(folder):
            name = path.relative_to(ROOT)
            if (lines := len(path.read_text().splitlines())) > FILE_LINES:
                yield f"{name}: {lines} lines"
            yield from (f"{name}: {function} has {n} lines" for function, n in functions_of(path) if n > FUNCTION_LINES)
    for folder in ("service", "spark_client"):
        yield from (f"{name}: {n} files" for n, name in fullest_folders(folder) if n > FOLDER_FILES)


BODIES: dict[str, tuple[str, str]] = {
    "JSON": ("application/json", ""),
    "packed": ("application/vnd.oncegate.packed", "Oncegate-Token: {token}\r\nOncegate-Call: 0\r\n"),
}
WARM, TRIES = 99, 40


class Walk:
    """Records calls into the service's files from the arrival of a request until its response is written.

    Installed as the profile function of all threads, so it records both the event loop and the ledger's writer.
    """

    def __init__(self) -> None:
        self.expected = self._recording = False
        self.calls: list[str] = []

    def __call__(self, frame: Any, event: str, _arg: object) -> None:
        if event != "call" or not self.expected or not frame.f_code.co_filename.startswith(str(SERVICE)):
            return
        if frame.f_code.co_name == "data_received":
            self._recording = True
        elif frame.f_code.co_name == "on_response_complete":
            self._recording = False
        if self._recording:
            self.calls.append(frame.f_code.co_filename.removeprefix(f"{SERVICE}/"))


def claim_of(kind: str) -> bytes:
    """Returns a request that claims two new ids, in one of `BODIES`."""
    media, more = BODIES[kind]
    body = os.urandom(32)
    token = secrets.token_hex(16)
    if kind == "JSON":
        body = json.dumps({"token": token, "call": 0, "ids": [body[:16].hex(), body[16:].hex()]}).encode()
    head = f"POST /v1/namespaces/default/ids:claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media}\r\n"
    return f"{head}{more.format(token=token)}Content-Length: {len(body)}\r\n\r\n".encode() + body


def answered(connection: socket.socket, request: bytes) -> None:
    """Sends a request and waits for its response, which must be a 200 in a single write."""
    connection.sendall(request)
    answer = connection.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 200 "), answer


def walks_of_claims() -> dict[str, list[str]]:
    """Returns for each of `BODIES` the file of each call made by about the 100th claim of two ids, in order.

    Several claims are recorded and the one with the fewest calls is returned, since maintenance can only add calls.
    """
    from oncegate.testing import LocalGateway

    walk, walks = Walk(), dict[str, list[str]]()
    threading.setprofile(walk)
    with LocalGateway() as local:
        for kind in BODIES:
            with socket.create_connection(("127.0.0.1", local.port)) as connection:
                for _ in range(WARM):
                    answered(connection, claim_of(kind))
                ways = []
                for _ in range(TRIES):
                    walk.calls, walk.expected = [], True
                    answered(connection, claim_of(kind))
                    walk.expected = False
                    ways.append(walk.calls)
                walks[kind] = min(ways, key=len)
    threading.setprofile(None)
    return walks


def changes_of(calls: list[str]) -> int:
    """Returns how often a call is in a different file from the one before."""
    return sum(call != before for before, call in itertools.pairwise(calls))


def main() -> None:
    """Prints all metrics, or those selected by an option."""
    if "--large" in sys.argv[1:]:
        print("\n".join(large()))
        return
    for folder in ("service", "spark_client", "tests", "bench", "demo"):
        print(sizes(folder))
    for folder in ("service", "spark_client"):
        print(f"pure forwarders of {folder}: {len(forwarders(folder))}")
        print(f"fullest folders of {folder}:", ", ".join(f"{n} {name}" for n, name in fullest_folders(folder)[:6]))
    if "--walk" in sys.argv[1:]:
        for kind, calls in walks_of_claims().items():
            counts = f"{len(calls)} calls, {len(set(calls))} files, {changes_of(calls)} changes of file"
            print(f"a {kind} claim: {counts}\n{' > '.join(dict.fromkeys(calls))}")


if __name__ == "__main__":
    main()
