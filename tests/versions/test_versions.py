"""Data of each version, opened by this one: nothing that was done is done again."""

import json
import tarfile
from pathlib import Path

import pytest

from deploy.kafka.cluster import Cluster
from oncegate_spark import Gateway
from tests.support.gateway_process import GatewayProcess
from tests.versions import history
from tests.versions.__main__ import PREFIX, SEGMENTS, VERSIONS

pytestmark = pytest.mark.server
MADE = sorted(VERSIONS.iterdir())


def unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        # Python before 3.11.4 has no filters; the archives are this repository's own.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(folder)


def known_to(served: GatewayProcess) -> object:
    with served, Gateway(served.url) as gateway:
        return json.loads(json.dumps(history.answers_about_history(gateway)))


def stored_answers(version: Path, kind: str) -> object:
    return json.loads((version / "known.json").read_text())[kind]


@pytest.mark.parametrize("version", MADE, ids=lambda path: path.name)
def test_a_data_folder_of_each_version_is_known_whole(version: Path, tmp_path: Path) -> None:
    unpack(version / "data.tar.xz", tmp_path)
    assert known_to(GatewayProcess(tmp_path)) == stored_answers(version, "data")


@pytest.mark.slow
@pytest.mark.parametrize("version", MADE, ids=lambda path: path.name)
def test_topics_of_each_version_are_known_whole(version: Path, tmp_path: Path) -> None:
    unpack(version / "broker.tar.xz", tmp_path)
    (tmp_path / "beside").mkdir()
    with Cluster(tmp_path / "broker", more=SEGMENTS) as cluster:
        served = GatewayProcess(tmp_path / "beside", ledger=cluster.ledger(PREFIX))
        assert known_to(served) == stored_answers(version, "broker")
