"""Runs command lines of Kafka's own tools, with the same classes and the broker's version."""

import shlex
import subprocess
from pathlib import Path

from deploy.kafka.access import ADMIN
from deploy.kafka.jars import TOOLS, fetched, java
from tests.support.kafka_broker import Broker

CLASSES = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
}
RUN_S = 120


def run_line(line: str) -> str:
    """Runs a command line and returns its output. Raises AssertionError if it fails."""
    script, *arguments = shlex.split(line)
    classes = f"{fetched()}/*:{fetched(TOOLS)}/*"
    command = [java(), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes, CLASSES[script]]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


def admin_properties(broker: Broker, folder: Path) -> Path:
    """Writes the file with which the tools connect as the broker's administrator, by PLAIN over TLS."""
    files = broker.cluster.files
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    lines = [
        "security.protocol=SASL_SSL",
        "sasl.mechanism=PLAIN",
        f'sasl.jaas.config={login} username="{ADMIN}" password="{files.password(ADMIN)}";',
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={files.authority}",
    ]
    path = folder / "admin.properties"
    path.write_text("\n".join(lines))
    return path
