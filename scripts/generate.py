"""Writes the committed files that are generated from code; `--check` prints the stale ones and writes nothing."""

import sys
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from grpc_tools import protoc

from oncegate.core.verdicts import BY_BYTE, VERDICT_MASK, Flag
from oncegate.transports.http.openapi import document
from scripts import public_names

ROOT = Path(__file__).parents[1]


def openapi_text() -> str:
    """Returns the text of openapi.json."""
    from oncegate.transports.http.routes import TABLE  # reads parameters.json when imported

    return document.text(document.document(TABLE.routes))


def parameters_text() -> str:
    """Returns the text of parameters.json."""
    return document.text(document.parameters())


def verdicts_text() -> str:
    """Returns the text of the client's copy of the verdict table, which imports nothing from the service."""
    lines = [
        '"""The verdicts as bytes. Generated from oncegate/core/verdicts.py by `make generate`; do not edit."""',
        "",
        f"VERDICT_MASK = 0x{VERDICT_MASK:02X}",
        *(f"FLAG_{flag.name} = 0x{flag.value:02X}" for flag in Flag),
        "",
        "# byte: (verdict, takeover, own, its number's name, unchecked, may write)",
        "BY_BYTE: dict[int, tuple[str, bool, bool, str | None, bool, bool]] = {",
    ]
    for byte, row in sorted(BY_BYTE.items()):
        takeover, own, unchecked = (flag in row.flags for flag in (Flag.TAKEOVER, Flag.OWN, Flag.UNCHECKED))
        number = "None" if row.number is None else f'"{row.number}"'
        lines.append(
            f'    0x{byte:02X}: ("{row.verdict.name}", {takeover}, {own}, {number}, {unchecked}, {row.may_write}),'
        )
    return "\n".join([*lines, "}", ""])


PROTO = "oncegate/v1/gateway.proto"
PARAMETERS = "service/oncegate/transports/http/parameters.json"
GRPC = "service/oncegate/transports/grpc"


@cache
def _messages() -> dict[str, str]:
    """Returns the Python code of the .proto's messages, by file ending."""
    with TemporaryDirectory() as folder:
        status = protoc.main(
            [
                "",
                f"-I{ROOT}/service/proto",
                f"--python_out={folder}",
                f"--pyi_out={folder}",
                f"{ROOT}/service/proto/{PROTO}",
            ]
        )
        if status:
            raise SystemExit(status)
        made = Path(folder, PROTO)
        return {end: made.with_name(f"gateway_pb2.{end}").read_text() for end in ("py", "pyi")}


def messages_text(end: str) -> str:
    """Returns the text of the messages' module, or of its type stubs."""
    return _messages()[end]


GENERATED = {
    f"{GRPC}/gateway_pb2.py": partial(messages_text, "py"),
    f"{GRPC}/gateway_pb2.pyi": partial(messages_text, "pyi"),
    PARAMETERS: parameters_text,
    "service/oncegate/transports/http/openapi/openapi.json": openapi_text,
    "spark_client/oncegate_spark/protocol/_generated_verdicts.py": verdicts_text,
    "tests/golden/public.txt": public_names.text,
}


def stale(write: bool = False) -> list[str]:
    """Returns the committed files that differ from the generated text; `write`: also writes each before the next check.

    Without `write`, files generated from a stale file are not checked.
    """
    names: list[str] = []
    for name, make in GENERATED.items():
        path = ROOT / name
        if PARAMETERS in names and not write and make is openapi_text:
            continue
        text = make()
        if not path.exists() or path.read_text() != text:
            names.append(name)
            if write:
                path.write_text(text)
    return names


def main() -> int:
    """Writes the stale files, or with `--check` prints their names; returns the exit status."""
    is_check = "--check" in sys.argv[1:]
    names = stale(write=not is_check)
    for name in names:
        sys.stdout.write(f"{name} is stale: make generate\n" if is_check else f"wrote {name}\n")
    return 1 if is_check and names else 0


if __name__ == "__main__":
    raise SystemExit(main())
