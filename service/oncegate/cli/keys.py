"""Defines the verbs `oncegate keys add`, `list` and `revoke`. A running gateway reads the changed file within a
second.
"""

import fcntl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from oncegate.cli.refusals import refusing
from oncegate.cli.tables import table_of
from oncegate.clock import SystemClock
from oncegate.core.errors import SettingsError
from oncegate.engine.names import check_namespace
from oncegate.transports.access import keys
from oncegate.transports.access.rights import Role


def _named(tenant: str | None) -> str | None:
    if tenant == "":
        raise typer.BadParameter("it is empty; name a tenant or leave it out: no key was made")
    return tenant


KeysFileOption = Annotated[Path, typer.Option("--keys", help="The file of keys.")]
RolesOption = Annotated[list[Role], typer.Option("--role", help="What the key may do; repeatable.")]
TenantOption = Annotated[
    str | None,
    typer.Option(
        "--tenant", help="Whose quotas it uses, with the tenant's other keys.  [default: NAME's]", callback=_named
    ),
]
NamespacesOption = Annotated[
    list[str], typer.Option("--namespace", help="Where it may do that; '*' is everywhere; repeatable.")
]


def add(
    name: str,
    role: RolesOption,
    namespace: NamespacesOption,
    file: KeysFileOption = Path("keys.json"),
    tenant: TenantOption = None,
) -> None:
    """Make a key for NAME and show it, once: the file holds only its hash.

    Example: oncegate keys add loader --role write --role ack --namespace orders
    """
    with _refusing():
        for pattern in namespace:
            if pattern != keys.ALL_NAMESPACES:
                check_namespace(pattern)
    with _changing(file) as keys_of_file:
        now_ms = SystemClock().wall_ms()
        made, text = keys.made(name, dict.fromkeys(role), dict.fromkeys(namespace), now_ms, tenant or "")
        keys.write(file, [*keys_of_file.values(), made])
        sys.stdout.write(text + "\n")


def list_keys(file: KeysFileOption = Path("keys.json")) -> None:
    """List the keys, without their secrets, which are not stored."""
    with _refusing():
        table = table_of("id", "name", "tenant", "roles", "namespaces")
        for key in keys.read(file).values():
            roles, namespaces = ", ".join(role.value for role in key.roles), ", ".join(key.namespaces)
            table.add_row(key.id, key.name, key.tenant, roles, namespaces)
        Console().print(table)


def revoke(key_id: str, file: KeysFileOption = Path("keys.json")) -> None:
    """Remove the key with this id (`oncegate keys list`). A running gateway refuses it within a second."""
    with _refusing():
        keys.read(file)  # without it there is nothing to lock
    with _changing(file) as keys_of_file:
        if key_id not in keys_of_file:
            raise SettingsError(f"{file} has no key {key_id}; nothing was changed")
        keys.write(file, [key for key in keys_of_file.values() if key.id != key_id])
        sys.stdout.write(f"key {key_id} of {keys_of_file[key_id].name} is revoked\n")


@contextmanager
def _changing(file: Path) -> Iterator[dict[str, keys.ApiKey]]:
    """Locks the key file and yields its keys, so that no concurrent change is lost."""
    with _refusing(), file.with_name(file.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield keys.read(file) if file.exists() else {}


@contextmanager
def _refusing() -> Iterator[None]:
    with refusing():
        try:
            yield
        except keys.KeysUnreadable as error:
            raise SettingsError(str(error)) from error


app = typer.Typer(help="Make, list and revoke the keys that callers show.", no_args_is_help=True, add_completion=False)
app.command("add")(add)
app.command("list")(list_keys)
app.command("revoke")(revoke)
