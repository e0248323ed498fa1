"""Generates the blocking client from the asyncio one; `--check` prints the stale files and writes nothing.

`aio/` is the source of every file in FILES, and `sync/` is generated from it by substitution, as in httpcore. There are
three kinds of rules, applied in this order. A rule that never applies is an error.

* a line of the source that ends in `# sync: CODE` becomes CODE, and in `# sync: -` it is left out;
* PHRASES are texts, mostly in docstrings, that differ without asyncio;
* TOKENS are regular expressions: `await `, `async def`, the names of classes and modules.

Sockets, clocks, and the thread or task that renews leases are written by hand on both sides (`pool` and `connection`,
`clock`, `lease`), with names that match the generated files.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CLIENT = ROOT / "spark_client/oncegate_spark"
FILES = ("attempt.py", "gateway.py", "producers.py", "runner.py", "spilling.py")
HEADER = "# Generated from oncegate_spark/aio/{} by scripts/unasync.py; do not edit.\n"

LINE = re.compile(r"^( *)\S.*?  # sync: (.+)\n", re.MULTILINE)

PHRASES = (
    ("a program with asyncio uses it", "a program without asyncio uses it"),
    ("The attempt of the asyncio client", "The attempt of the blocking client"),
    (
        "for one event loop and any number of concurrent calls.",
        "for one thread.",
    ),
    (
        """
    At most `connections_max` calls are sent concurrently; the others wait for a connection within their own timeout.
    The effect of a cancelled call is unknown, and only a repeat under the same token and call reveals it.
""",
        "",
    ),
    (
        """
    Calls may run concurrently. The effect of a cancelled call is unknown: ids granted to a cancelled `claim` stay held
    until their lease expires, and a claim whose `complete` was cancelled counts as open.
""",
        "",
    ),
    ("\n\n    The effect of a cancelled call is unknown.\n", "\n"),
    (
        "an AsyncGateway holds connections and cannot be pickled: create one where it is used",
        "a Gateway holds a connection and cannot be pickled: create one where it is used, in the task",
    ),
    (
        "with the same settings and connections of its own.",
        "with the same settings and a connection of its own, for another thread.",
    ),
    ("large bodies: one for all blocks.", "large bodies: a new one for each block."),
    ("from a task while the block runs", "from a thread while the block runs"),
    ("over its own connections and clock", "over its own connection and clock"),
    ("over connections of its own", "over a connection of its own"),
    ("Closes its connections;", "Closes its connection;"),
    ("Closes the connections.", "Closes the connection."),
)

TOKENS = (
    (r"\boncegate_spark\.aio\b", "oncegate_spark.sync"),
    (r"\bself\._pool\b", "self._connection"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\basync (?=def |with\b)", ""),
    (r"\bawait ", ""),
)


class UnusedRule(Exception):
    """Raised if a rule applies to no file, so it is out of date."""


def without_asyncio(text: str, used: set[str]) -> str:
    """Returns the blocking form of a source text, not yet formatted. Adds the applied rules to `used`."""

    def directed(line: re.Match[str]) -> str:
        indent, code = line.groups()
        return "" if code == "-" else f"{indent}{code}\n"

    text = LINE.sub(directed, text)
    for phrase, plain in PHRASES:
        if phrase in text:
            used.add(phrase)
            text = text.replace(phrase, plain)
    for pattern, plain in TOKENS:
        text, count = re.subn(pattern, plain, text)
        if count:
            used.add(pattern)
    return text


def formatted(text: str) -> str:
    """Formats a text with `ruff check --select I --fix` and `ruff format`."""
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format", "--quiet"]):
        call = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(CLIENT / "sync/generated.py"), "-"]
        text = subprocess.run(call, cwd=ROOT, input=text, capture_output=True, text=True, check=True).stdout
    return text


def generated() -> dict[Path, str]:
    """Returns the correct text of every generated file. Raises UnusedRule."""
    used: set[str] = set()
    texts = {name: without_asyncio((CLIENT / "aio" / name).read_text("utf-8"), used) for name in FILES}
    unused = [rule for rule, _ in (*PHRASES, *TOKENS) if rule not in used]
    if unused:
        raise UnusedRule(f"scripts/unasync.py: nothing in aio/ fits the rules {unused}")
    return {CLIENT / "sync" / name: HEADER.format(name) + formatted(text) for name, text in texts.items()}


def main() -> int:
    """Writes the stale files, or with `--check` prints their names; returns 1 if any is stale or a rule is unused."""
    try:
        stale = {path: text for path, text in generated().items() if not path.exists() or path.read_text() != text}
    except UnusedRule as error:
        sys.stdout.write(f"{error}\n")
        return 1
    if "--check" in sys.argv[1:]:
        sys.stdout.writelines(f"{path.relative_to(ROOT)} is stale: make generate\n" for path in stale)
        return 1 if stale else 0
    for path, text in stale.items():
        path.write_text(text, "utf-8")
        sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
