"""Checks a ledger's servers: topics, settings and rights on Kafka; whether Redis is suitable for a ledger."""

import asyncio
from collections.abc import Iterator
from typing import Any

from oncegate.cli.doctor.findings import DoctorFinding, ok, warning, wrong

NOT_THERE = "the ledger is there: without it nothing is decided"
REACH = "see that it runs and that this machine reaches it"


def kafka(location: str, namespace: str) -> Iterator[DoctorFinding]:
    """Runs the checks of `oncegate kafka plan --check` for one namespace."""
    from oncegate.ledgers.kafka.address import parse_address
    from oncegate.ledgers.kafka.plan import look, needs_of

    address = parse_address(location)
    looked = asyncio.run(look(needs_of(address, [namespace], None, []), address))
    topics = [item for item in looked if item.item.startswith("topic")]
    if topics and all(said.startswith("missing") for item in topics for said in item.wrong or ("right",)):
        yield warning(
            "ledger",
            "no topic of this prefix is there",
            "the first opening makes them, if it may",
            "oncegate kafka plan prints the lines that make them",
        )
        looked = [item for item in looked if item not in topics]
    for item in looked:
        if item.wrong:
            why = "an opening is refused, or fails when it is needed"
            yield wrong(
                "ledger", f"{item.item}: {', '.join(item.wrong)}", why, "oncegate kafka plan says what is needed"
            )
    if right := sum(not item.wrong for item in looked):
        yield ok("ledger", f"{right} of {len(looked)} topics and rights are there and right")


def redis(location: str, tls: bool) -> Iterator[DoctorFinding]:
    """Checks the kind of the server, and which failures an append survives there."""
    from oncegate.ledgers.redis.address import parse_address
    from oncegate.ledgers.redis.connection import Link

    address = parse_address(location, tls)

    async def server_facts() -> Any:
        link = Link(address)
        try:
            return await link.connect()
        finally:
            await link.close()

    server = asyncio.run(server_facts())
    durability = server.durability(address.wait_replicas)
    yield ok("ledger", f"Redis {server.info.get('redis_version')} at {address.host}:{address.port} may hold a ledger")
    if durability.startswith("NOT DURABLE"):
        yield warning(
            "ledger", durability, "what was acknowledged may be granted again then", "CONFIG SET appendfsync always"
        )
    else:
        yield ok("ledger", durability)
