"""A job submitted as users do: through Spark Connect, with the client shipped beside it, and on executors that die."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections import Counter
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from oncegate_spark import Gateway

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
JOB = ROOT / "tests/spark/jobs/one.py"
SPARK_HOME = Path(pyspark.__file__).parent
PACKAGES = Path(sysconfig.get_paths()["purelib"])
CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
}


class Place:
    """A folder with a job and its input, outside this repository, and a gateway."""

    def __init__(self, folder: Path, gateway: Gateway) -> None:
        self.folder, self.gateway = folder, gateway
        self.asks = [gateway.url, gateway.namespace, str(folder)]
        (folder / "in").mkdir()
        copy(JOB, folder / "one_job.py")

    def add_file(self, name: str, numbers: range) -> None:
        rows = {"id": [f"id-{n}" for n in numbers], "n": pa.array(numbers, pa.int64())}
        pq.write_table(pa.table(rows), self.folder / "in" / f"{name}.parquet")

    def run(self, python: str | None, *command: str, **environment: str) -> str:
        """Returns the job's output. `python`: that of its driver and workers; None leaves both unset."""
        settings = {"PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"}
        kept = {name: value for name, value in os.environ.items() if name not in settings}
        theirs = {} if python is None else {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
        settled = {**kept, **theirs, "SPARK_HOME": str(SPARK_HOME), **environment}
        done = subprocess.run(command, cwd=self.folder, env=settled, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
        return done.stdout + done.stderr

    def submit(self, python: str, master: str, *more: str, **environment: str) -> str:
        conf = [part for name, value in CONF.items() for part in ("--conf", f"{name}={value}")]
        command = [str(SPARK_HOME / "bin/spark-submit"), "--master", master, *conf, *more, "one_job.py", *self.asks]
        return self.run(python, *command, **environment)

    def published(self) -> Counter[int]:
        table = self.gateway.read("t")
        assert table is not None
        return Counter(table.column("n").to_pylist())

    def counters(self) -> dict[str, int]:
        return dict(self.gateway.describe()["counters"])


@pytest.fixture
def place(tmp_path: Path, gateway: Gateway) -> Place:
    place = Place(tmp_path, gateway)
    place.add_file("a", range(50))
    place.add_file("b", range(50, 100))
    return place


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT / "spark_client", check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Creates a Python environment with Spark and pyarrow and without this package."""
    folder = tmp_path_factory.mktemp("bare") / "environment"
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "others.pth").write_text(f"{PACKAGES}\n")  # the .pth files of that folder are not read
    python = folder / "bin/python"
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    probe = "import pyspark, pyarrow, importlib.util; print(importlib.util.find_spec('oncegate_spark'))"
    outcome = subprocess.run([python, "-c", probe], env=without, capture_output=True, text=True, check=True)
    assert outcome.stdout == "None\n"
    return python


def once(count: int) -> Counter[int]:
    return Counter(range(count))


def test_spark_connect_writes_once(place: Place) -> None:
    # Connect's server takes a free port under this name alone, else 15002, which another run may hold (SPARK-42272).
    environment = {"PYTHONPATH": str(ROOT / "spark_client"), "SPARK_TESTING": "1"}
    output = place.run(sys.executable, sys.executable, "one_job.py", *place.asks, "local[2]", **environment)
    assert place.published() == once(100)
    assert place.counters()["duplicate_commits"] == 1
    assert "through Spark Connect listeners run on the client" in output
    assert "DUPLICATE rows=100 suppressed=100" in output, "the line in the server's log instead"


WITHOUT_REGISTER = """
import sys
from pyspark.sql import SparkSession
import oncegate_spark
url, namespace, _ = sys.argv[1:]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.range(3).selectExpr("cast(id as string) id", "id n").write.format("oncegate").mode("append")
for step in (
    lambda: rows.options(url=url, namespace=namespace, write="plain").save("t"),
    lambda: oncegate_spark.register(spark),
):
    try:
        step()
    except Exception as error:
        print("SAID:", *str(error).splitlines()[:2])
spark.stop()
"""


def test_an_environment_that_is_not_activated_names_the_variables_to_export_and_then_needs_no_register(
    place: Place, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver has the package; Spark's workers run the path's python3, which does not."""
    (place.folder / "job.py").write_text(WITHOUT_REGISTER)
    monkeypatch.setenv("PATH", os.pathsep.join([str(bare.parent), "/usr/bin", "/bin"]))
    started = (sys.executable, "job.py", *place.asks)
    output = place.run(None, *started)
    assert re.search(r"SAID: .*DATA_SOURCE_NOT_FOUND.*Failed to find the data source: oncegate", output)
    assert re.search(rf"SAID: .*python3 of PATH.*no oncegate_spark: export PYSPARK_PYTHON={sys.executable}", output)
    output = place.run(None, *started, PYSPARK_PYTHON=sys.executable)
    assert "SAID" not in output
    assert place.published() == once(3)


def test_the_client_shipped_by_py_files_writes_once(place: Place, wheel: Path, bare: Path) -> None:
    """The wheel's name must end in .zip: Spark puts nothing else on its workers' path."""
    shipped = copy(wheel, place.folder / "oncegate_spark.zip")
    output = place.submit(str(bare), "local[2]", "--py-files", str(shipped))
    assert place.published() == once(100)
    assert place.counters()["duplicate_commits"] == 1
    told = [line for line in output.splitlines() if line.startswith("told: ")]
    assert told == [f"told: batch 0, {written} of 100 rows written" for written in (100, 0)]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """Builds environment.tar.gz as venv-pack does: a whole environment that runs wherever it is unpacked."""
    folder = tmp_path_factory.mktemp("packed")
    venv.create(folder / "environment", symlinks=False, with_pip=False)
    (site,) = (folder / "environment").glob("lib/python*/site-packages")
    copytree(PACKAGES / "pyarrow", site / "pyarrow", ignore=ignore_patterns("include", "tests", "src"))
    with zipfile.ZipFile(wheel) as client:
        client.extractall(site)
    with tarfile.open(folder / "environment.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(folder / "environment", ".")
    return folder / "environment.tar.gz"


def test_a_packed_environment_writes_once_where_the_driver_has_unpacked_it_too(place: Place, packed: Path) -> None:
    """Spark plans a Python data source on the driver's machine, with the Python set for its executors."""
    (place.folder / "environment").mkdir()
    subprocess.run(["tar", "-xzf", packed, "-C", "environment"], cwd=place.folder, check=True)
    place.submit("./environment/bin/python", "local-cluster[1,2,1024]", "--archives", f"{packed}#environment")
    assert place.published() == once(100)
    assert place.counters()["duplicate_commits"] == 1


def test_an_executor_killed_in_the_middle_of_a_staged_write_costs_nothing(place: Place) -> None:
    (place.folder / "kill").touch()
    client = str(ROOT / "spark_client")
    output = place.submit(sys.executable, "local-cluster[2,1,1024]", PYTHONPATH=client)
    assert (place.folder / "killed").exists()
    assert "Lost executor" in output
    assert "told: batch 0, 100 of 100 rows written" in output
    assert place.published() == once(100)
    counters = place.counters()
    assert counters["staged_rows"] > 100  # more than the job has: the dead executor's staged rows are included
    assert counters["stage_bytes"] == 0
