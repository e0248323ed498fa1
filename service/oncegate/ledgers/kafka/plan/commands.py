"""Writes needs as the lines of Kafka's own tools that fulfil them; each may be run again."""

import shlex
from collections.abc import Iterator

from oncegate.ledgers.kafka.plan.needs import Needs, Right
from oncegate.ledgers.kafka.topics import Wanted


def commands(needs: Needs, bootstrap: str, command_config: str | None) -> Iterator[str]:
    """Yields a line for each topic, then one for each kind of rights; `command_config`: the tools' own connection."""
    config = [] if command_config is None else ["--command-config", command_config]
    reached = ["--bootstrap-server", bootstrap, *config]
    for one in needs.topics:
        yield shlex.join(["kafka-topics.sh", *reached, *_topic(one)])
    for right in needs.rights:
        yield shlex.join(["kafka-acls.sh", *reached, *_right(right, needs.principal)])
    if needs.writer is not None:
        for right in needs.writers_rights:
            yield shlex.join(["kafka-acls.sh", *reached, *_right(right, needs.writer)])


def _topic(one: Wanted) -> list[str]:
    made = ["--create", "--if-not-exists", "--topic", one.name]
    counts = ["--partitions", str(one.partitions), "--replication-factor", str(one.replication)]
    return [*made, *counts, *(word for name, value in one.settings.items() for word in ("--config", f"{name}={value}"))]


def _right(right: Right, principal: str) -> list[str]:
    operations = [word for operation in right.operations for word in ("--operation", operation)]
    where = [f"--{right.kind}", right.name, "--resource-pattern-type", "literal" if right.alone else "prefixed"]
    return ["--add", "--allow-principal", principal, *operations, *where]
