"""Checks the machine for the requirements of the demo on Kafka; a missing one is reported in one line."""

import re
import subprocess
from pathlib import Path

from deploy.kafka.jars import BROKER, CONNECTOR, JarsMissing, fetched, java

JAVA_MIN = 17
_ANSWER_S = 60


def require_java() -> None:
    """Raises RuntimeError unless there is a Java that runs brokers and Spark."""
    try:
        said = subprocess.run([java(), "-version"], capture_output=True, text=True, timeout=_ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        raise RuntimeError(f"Java {JAVA_MIN} is missing ({java()}); install it, then run make setup") from None
    match = re.search(r'version "(\d+)', said.stderr)
    if match is None or int(match[1]) < JAVA_MIN:
        version = match[1] if match else "unknown"
        raise RuntimeError(f"Java {JAVA_MIN} is missing ({java()} is {version}); install it, then run make setup")


def require_jars() -> Path:
    """Returns the folder of Spark's Kafka connector. Raises RuntimeError if its or the broker's jars are missing."""
    try:
        fetched(BROKER)
        return fetched(CONNECTOR)
    except JarsMissing as error:
        first = str(error).splitlines()[0].rstrip(":")
        raise RuntimeError(f"{first}; python -m deploy.kafka.jars shows why (they come from Maven Central)") from None
