"""Jobs that send a gateway a key from a file, which the driver and the executors read and no plan or log shows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncegate.transports.access import keys
from oncegate.transports.access.rights import Role
from oncegate_spark import Credentials, dedup
from tests.spark.jobs.job import Job
from tests.support.gateway_process import GatewayProcess

pytestmark = pytest.mark.spark


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[GatewayProcess]:
    """Yields a gateway that requires a key, stored in `tmp_path/key`."""
    key, text = keys.made("job", [Role.WRITE, Role.ACK, Role.READ], ["default"], 0)
    keys.write(tmp_path / "keys.json", [key])
    (tmp_path / "key").write_text(text + "\n")
    with GatewayProcess(tmp_path, "--keys", str(tmp_path / "keys.json")) as process:
        yield process


def test_a_job_shows_its_key_only_to_the_gateway(
    job: Job, guarded: GatewayProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_log: Path
) -> None:
    monkeypatch.delenv("ONCEGATE_API_KEY", raising=False)
    file = str(tmp_path / "key")
    where = {"url": guarded.url, "topic": "t"}
    with pytest.raises(Exception, match="this gateway requires a key"):
        job.write(job.rows(1), **where, txnAppId="a", txnVersion="1")
    job.write(job.rows(1, 2), **where, apiKeyFile=file, txnAppId="a", txnVersion="1")
    job.add_file(3)
    job.run(job.stream(), **where, apiKeyFile=file, write="ids", idCol="id", scope="retry")
    job.add_file(4)
    job.run(job.stream(), **where, apiKeyFile=file, write="ids", idCol="id", scope="retry")
    read = job.spark.read.format("oncegate").options(**where, apiKeyFile=file).load()
    assert {row.n for row in read.collect()} == {1, 2, 3, 4}
    given = Credentials(api_key_file=file)
    taken = dedup(job.rows(1, 1, 2), "id", job_key="a", gateway=guarded.url, credentials=given)
    assert taken.count() == 2
    assert len([*(job.checkpoint / "oncegate" / "acks").iterdir()]) == 1  # the first was acked when the second began
    secret = (tmp_path / "key").read_text().strip()[-64:]
    plans = [frame._jdf.queryExecution().toString() for frame in (read, taken)]
    told = "".join([*plans, spark_log.read_text(), job.log(), guarded.log])
    kept = [text for text in tmp_path.rglob("*") if text.is_file() and secret.encode() in text.read_bytes()]
    assert secret not in told
    assert kept == [tmp_path / "key"]
