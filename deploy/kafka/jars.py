"""Fetches jars from Maven Central with PySpark's Ivy, and verifies their hashes.

python -m deploy.kafka.jars              the broker's jars, unless they are there python -m deploy.kafka.jars connector
those of Spark's Kafka source python -m deploy.kafka.jars tools        those of Kafka's command line tools
"""

import argparse
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
# 44 jars of 42 MB take half a minute; a slow mirror may take ten times as long.
FETCH_S = 600


@dataclass(frozen=True)
class JarSet:
    """Jars that are fetched together: a configuration of `ivy.xml`, and the file with their hashes."""

    name: str
    folder: str
    hashes: str


BROKER = JarSet("broker", "kafka-4.3.1", "jars.sha256")
# For Spark 4.2: there is none for 4.3 yet, and this one works with it.
CONNECTOR = JarSet("connector", "spark-kafka-4.2.0", "connector.sha256")
# kafka-topics.sh, kafka-acls.sh and others, in addition to a broker's jars.
TOOLS = JarSet("tools", "kafka-tools-4.3.1", "tools.sha256")


class JarsMissing(RuntimeError):
    """The jars could not be fetched, or do not match the set's hashes."""


def fetched(jars: JarSet = BROKER) -> Path:
    """Returns the folder of the jars, fetched once per environment. Raises JarsMissing with the reason."""
    folder = Path(sys.prefix) / jars.folder
    with open(folder.with_name(f"{jars.folder}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _fetch(jars, folder)
    return folder


def java() -> str:
    """Returns the Java command of JAVA_HOME, else the first in PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin/java") if home else "java"


def _fetch(jars: JarSet, folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder.parent) as beside:
        made = Path(beside) / "jars"
        where = ["-cache", f"{beside}/cache", "-retrieve", f"{made}/[artifact]-[revision].[ext]"]
        command = [java(), "-jar", str(_ivy()), "-ivy", str(HERE / "ivy.xml"), "-confs", jars.name, *where]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise JarsMissing(f"the jars of {jars.folder} could not be fetched: {error}") from error
        if done.returncode:
            raise JarsMissing(f"the jars of {jars.folder} could not be fetched:\n{(done.stdout + done.stderr)[-2000:]}")
        check(made, jars)
        shutil.move(made, folder)


def check(folder: Path, jars: JarSet = BROKER) -> None:
    """Verifies the jars' hashes. Raises JarsMissing with the names of missing, additional or different ones."""
    named = (line.split() for line in (HERE / jars.hashes).read_text().splitlines())
    wanted = {name: digest for digest, name in named}
    checksums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.jar")}
    if wrong := sorted({name for name, _ in wanted.items() ^ checksums.items()}):
        raise JarsMissing(f"not the jars of deploy/kafka/{jars.hashes}: {', '.join(wrong)}")


def _ivy() -> Path:
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise JarsMissing("the jars are fetched with PySpark's Ivy, and PySpark is not installed: run make setup")
    (jar,) = (Path(spark.origin).parent / "jars").glob("ivy-*.jar")
    return jar


if __name__ == "__main__":
    sets = {jar_set.name: jar_set for jar_set in (BROKER, CONNECTOR, TOOLS)}
    parser = argparse.ArgumentParser(prog="python -m deploy.kafka.jars", description="Fetch and verify jars.")
    parser.add_argument("jars", nargs="?", choices=sets, default=BROKER.name, help="which (default: %(default)s)")
    print(fetched(sets[parser.parse_args().jars]))
