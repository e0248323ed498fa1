"""Defines the verb `oncegate kafka plan`."""

import asyncio
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from oncegate.cli.refusals import refusing
from oncegate.cli.tables import table_of
from oncegate.core.errors import BadRequest
from oncegate.engine.names import DEFAULT_NAMESPACE, check_namespace

if TYPE_CHECKING:
    from oncegate.ledgers.kafka.plan import Looked, Needs, Right


class PlanFormat(StrEnum):
    """The output formats of a plan."""

    TEXT = "text"
    JSON = "json"
    COMMANDS = "commands"


LedgerOption = Annotated[str, typer.Option(help="The ledger's URL, as serve takes it: kafka://HOST:PORT/PREFIX?...")]
PrincipalOption = Annotated[
    str | None, typer.Option(help="Who gets the rights, as User:NAME.  [default: the user of the URL]")
]
NamespacesOption = Annotated[list[str], typer.Option("--namespace", help="A namespace that needs topics; repeatable.")]
TopicsOption = Annotated[list[str], typer.Option("--topic", help="A topic of users that rows go to; repeatable.")]
WriterOption = Annotated[str | None, typer.Option(help="Who writes rows directly into Kafka, as User:NAME.")]
PrintedOption = Annotated[
    PlanFormat, typer.Option("--format", help="What is printed: tables, one JSON object, or lines to run.")
]
CheckOption = Annotated[bool, typer.Option("--check", help="Ask the brokers, as the URL's user, which parts exist.")]
CommandConfigOption = Annotated[str, typer.Option(help="The properties file with which Kafka's tools authenticate.")]


def plan(
    ledger: LedgerOption,
    principal: PrincipalOption = None,
    namespace: NamespacesOption = [DEFAULT_NAMESPACE],  # noqa: B006, never changed
    topic: TopicsOption = [],  # noqa: B006, never changed
    writer: WriterOption = None,
    printed: PrintedOption = PlanFormat.TEXT,
    check: CheckOption = False,
    command_config: CommandConfigOption = "admin.properties",
) -> None:
    """Plan the needs of a gateway on Kafka's brokers: topics, rights, transactional ids. Asks no broker without
    --check.

    With --check it ends with status 1 if something is missing or wrong.
    Example: oncegate kafka plan --ledger "$URL" --format commands
    """
    with refusing():
        needs, address = _needs(ledger, namespace, principal, topic, writer)
        if check and writer is not None:
            raise BadRequest(
                "--check asks brokers as the URL's user, and cannot see another's rights: leave --writer out"
            )
        if check:
            _print_looked(_looked(needs, address, printed), printed)
        elif printed is PlanFormat.COMMANDS:
            from oncegate.ledgers.kafka.plan import commands

            config = None if address.security.protocol == "PLAINTEXT" else command_config
            sys.stdout.write("".join(f"{line}\n" for line in commands(needs, address.bootstrap, config)))
        elif printed is PlanFormat.JSON:
            sys.stdout.write(msgspec.json.encode(_members(needs)).decode() + "\n")
        else:
            _show(needs)


def _needs(
    ledger: str, namespaces: Sequence[str], principal: str | None, topics: Sequence[str], writer: str | None
) -> tuple["Needs", Any]:
    """Returns what the gateway needs on the brokers, and the parsed address. Raises BadRequest if the URL is not
    Kafka's or the extra is missing.
    """
    from oncegate.ledgers import parse_url
    from oncegate.ledgers.url_options import without_passwords

    scheme, location = parse_url(ledger)
    if scheme != "kafka":
        raise BadRequest(f"{without_passwords(ledger)} is no ledger on Kafka: kafka://HOST:PORT/PREFIX is")
    # Imported here: the Kafka client is an extra, and its import takes a quarter of a second.
    try:
        from oncegate.ledgers.kafka.address import parse_address
        from oncegate.ledgers.kafka.plan import needs_of
    except ModuleNotFoundError as error:
        raise BadRequest(f"a ledger on Kafka needs {error.name}: pip install 'oncegate[kafka]'") from error
    for name in namespaces:
        check_namespace(name)
    address = parse_address(location)
    return needs_of(address, namespaces, principal, topics, writer), address


def _looked(needs: "Needs", address: Any, printed: PlanFormat) -> "list[Looked]":
    from oncegate.ledgers.kafka.plan import look

    if printed is PlanFormat.COMMANDS:
        raise BadRequest(
            "--check says what is there: take --format text or json; the lines may be run again as they are"
        )
    return asyncio.run(look(needs, address))


def _print_looked(looked: "list[Looked]", printed: PlanFormat) -> None:
    if printed is PlanFormat.JSON:
        items = [{"item": item.item, "ok": not item.wrong, "wrong": item.wrong} for item in looked]
        sys.stdout.write(msgspec.json.encode(items).decode() + "\n")
    else:
        for item in looked:
            sys.stdout.write(
                f"WRONG  {item.item}: {'; '.join(item.wrong)}\n" if item.wrong else f"right  {item.item}\n"
            )
    if wrong := [item.item for item in looked if item.wrong]:
        raise BadRequest(f"{len(wrong)} of {len(looked)} are missing or wrong: {', '.join(wrong)}")


def _members(needs: "Needs") -> dict[str, Any]:
    topics = [
        {"name": need.name, "partitions": need.partitions, "replication": need.replication, "settings": need.settings}
        for need in needs.topics
    ]
    rights, writers = (
        [
            {"resource": need.kind, "name": need.name, "alone": need.alone, "operations": need.operations}
            for need in some
        ]
        for some in (needs.rights, needs.writers_rights)
    )
    ids = [{"use": need.use, "first": need.first, "prefix": need.prefix} for need in needs.ids]
    members = {"principal": needs.principal, "topics": topics, "rights": rights, "transactional_ids": ids}
    return members if needs.writer is None else {**members, "writer": needs.writer, "writers_rights": writers}


def _show(needs: "Needs") -> None:
    console = Console()
    topics = table_of("topic", "partitions", "replicas", "settings", title="topics")
    for topic in needs.topics:
        settings = "\n".join(f"{name}={value}" for name, value in topic.settings.items())
        topics.add_row(topic.name, str(topic.partitions), str(topic.replication), settings, end_section=True)
    rights = _rights(needs.principal, needs.rights)
    rights.add_row("cluster", "", "none")
    writers = [] if needs.writer is None else [_rights(needs.writer, needs.writers_rights)]
    ids = table_of("use", "transactional ids", title="transactional ids")
    for each in needs.ids:
        ids.add_row(each.use, each.first if each.prefix is None else f"{each.first} and on")
    for table in (topics, rights, *writers, ids):
        console.print(table)


def _rights(principal: str, rights: "Sequence[Right]") -> Table:
    table = table_of("resource", "name", "operations", title=f"rights of {principal}")
    for right in rights:
        table.add_row(right.kind, right.name if right.alone else f"{right.name}*", ", ".join(right.operations))
    return table


app = typer.Typer(help="Prepare Kafka's brokers for a ledger.", no_args_is_help=True, add_completion=False)


# Without a callback, Typer would drop the name of a group's only verb.
@app.callback()
def main() -> None:
    """Prepare Kafka's brokers for a ledger."""


app.command("plan")(plan)
