"""Fetches a broker's jars from Maven Central, by the Ivy that PySpark brings, and checks the hash of each.

python -m deploy.kafka.jars        fetch them, or say that they are there
"""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
VERSION = "4.3.1"
# 44 jars of 42 MB come in half a minute; a slow mirror may take ten times as long.
FETCH_S = 600


class JarsMissing(RuntimeError):
    """The jars could not be fetched, or are not those that `jars.sha256` names."""


def fetched() -> Path:
    """Gives the folder with the jars, fetched once for each environment; JarsMissing says why it cannot."""
    folder = Path(sys.prefix) / f"kafka-{VERSION}"
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _fetch(folder)
    return folder


def java() -> str:
    """Gives the command of the Java that JAVA_HOME names, else the first in the path."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin/java") if home else "java"


def _fetch(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder.parent) as beside:
        made = Path(beside) / "jars"
        where = ["-cache", f"{beside}/cache", "-retrieve", f"{made}/[artifact]-[revision].[ext]"]
        command = [java(), "-jar", str(_ivy()), "-ivy", str(HERE / "ivy.xml"), "-confs", "broker", *where]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise JarsMissing(f"Apache Kafka's jars could not be fetched: {error}") from error
        if done.returncode:
            raise JarsMissing(f"Apache Kafka's jars could not be fetched:\n{(done.stdout + done.stderr)[-2000:]}")
        check(made)
        shutil.move(made, folder)


def check(folder: Path) -> None:
    """Compares the jars with their hashes; JarsMissing names what is missing, more, or another."""
    named = (line.split() for line in (HERE / "jars.sha256").read_text().splitlines())
    wanted = {name: digest for digest, name in named}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.jar")}
    if wrong := sorted({name for name, _ in wanted.items() ^ found.items()}):
        raise JarsMissing(f"not the jars of deploy/kafka/jars.sha256: {', '.join(wrong)}")


def _ivy() -> Path:
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise JarsMissing("PySpark is not installed, whose Ivy fetches the jars: run make setup")
    (jar,) = (Path(spark.origin).parent / "jars").glob("ivy-*.jar")
    return jar


if __name__ == "__main__":
    print(fetched())
