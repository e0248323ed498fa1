"""`verify` of a data folder: the report of each ledger, and the refusals."""

from pathlib import Path

import pytest

from oncegate.core.errors import BadRequest, KeyMismatch, LedgerDamaged
from oncegate.ledgers.disk import Disk
from oncegate.ledgers.log import verify
from oncegate.ledgers.log.admin.verify import VerifiedLedger
from oncegate.ledgers.log.data_dir import DataDir, Refused
from oncegate.testing.ledger_places import snapshot_of
from tests.support.ledger_tools import (
    everything,
    opened_at,
    produce,
    settled,
)


async def test_verify_reports_each_ledger_and_touches_nothing(data) -> None:
    async with opened_at(data, create=True) as ledger:
        for number in range(6):
            await ledger.append(*produce(number))
        await ledger.compact(3, snapshot_of(b"state"))
        await settled(ledger)
        before = everything(data.parent)
        found = list(verify(str(data)))
        assert everything(data.parent) == before
    one = found[0]
    assert (one.namespace, one.position, one.compacted, one.ranges) == ("default", 6, 3, 6)
    assert one.range_bytes == 6 * 600


@pytest.mark.parametrize("file", ["segment", "rows", "state", "key", "witness", "list"])
async def test_verify_refuses_what_is_damaged(data, source, file) -> None:
    shard = data / "default/0"
    outputs = sorted((shard / "outputs").iterdir())
    path = {
        "segment": sorted(shard.glob("*.seg"))[0],
        "rows": outputs[0],
        "state": outputs[1],
        "key": data / "default/key",
        "witness": data.with_name("data.witness") / "default.witness",
        "list": data / "LEDGERS",
    }[file]
    assert list(verify(str(data)))
    content = path.read_bytes()
    wrong = bytearray(content)
    for at in (5, 4_101):  # both slots of the witness
        if at < len(wrong):
            wrong[at] ^= 1
    path.write_bytes(wrong)
    if file == "list":
        with pytest.raises(LedgerDamaged):
            list(verify(str(data)))
        return
    (refused,) = verify(str(data))
    assert isinstance(refused, Refused)
    assert refused.namespace == "default"
    assert isinstance(refused.error, LedgerDamaged | KeyMismatch)


async def test_contradicting_files_refuse_a_ledger(data, source) -> None:
    def also(ledger: VerifiedLedger) -> None:
        assert [one.body for one in ledger.entries()] == [b"state", b"entry 3", b"entry 4", b"entry 5", b"staged"]
        raise LedgerDamaged("entry 1 of the ledger makes no sense")

    (refused,) = verify(str(data), also=also)
    assert isinstance(refused, Refused)
    assert "makes no sense" in refused.error.detail


def test_a_backup_is_no_data_folder_and_names_the_verb_that_makes_one_of_it(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "BACKUP").write_text("whatever")
    with pytest.raises(BadRequest, match="is a backup: `oncegate restore --from"):
        DataDir(str(tmp_path / "copy"), None, Disk()).take(create=False)
