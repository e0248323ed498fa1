"""The verbs init, accept and dump."""

import random
import shutil
from collections import Counter

import pytest

from oncegate.core.entries.codec import encode
from oncegate.core.entries.kinds import Probe
from oncegate.core.errors import BadRequest, LedgerBusy, LedgerDamaged, NotFound
from oncegate.ledgers.log import accept, dump, init, open_log
from oncegate.ledgers.log.data_dir import Refused
from oncegate.ports import DropRanges, TrimRanges
from oncegate.testing.ledger_places import replayed
from tests.support.ledger_tools import Seen, creates_data_folder, fill, look, produce, range_of


async def test_init_makes_a_folder_that_serves(tmp_path) -> None:
    data = str(tmp_path / "deep/down/data")
    init(data, witness=str(tmp_path / "w"))
    assert creates_data_folder(tmp_path / "deep/down/data", tmp_path / "w") is False
    async with open_log(data, witness=str(tmp_path / "w")) as ledgers:
        assert ledgers.names() == ["default"]
        async with ledgers.open("default") as opened:
            assert opened.history.epoch == 1


async def test_init_refuses_what_is_not_empty(tmp_path) -> None:
    await fill(tmp_path / "data", [produce(0)])
    with pytest.raises(BadRequest, match="exists and is not empty"):
        init(str(tmp_path / "data"))
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(LedgerDamaged, match="is gone from"):
        init(str(tmp_path / "data"))
    (tmp_path / "other/lost+found").mkdir(parents=True)
    init(str(tmp_path / "other"))


async def test_an_older_copy_can_be_accepted_knowingly(tmp_path) -> None:
    """The copy serves its content under a new id: ledger positions of the lost part belong to another ledger."""
    data = tmp_path / "data"
    older = await fill(data, [produce(0), produce(1)])
    shutil.copytree(data, tmp_path / "backup")
    await fill(data, [produce(2)])
    async with open_log(str(data)) as ledgers, ledgers.open("default") as opened:
        lost = opened.ledger.mark
    shutil.rmtree(data)
    (tmp_path / "backup").rename(data)
    assert isinstance(await look(data), LedgerDamaged)
    lines = accept(str(data))
    assert len(lines) == 1
    assert "default: accepted at position 2, its witness saw position 3" in lines[0]
    async with open_log(str(data)) as ledgers, ledgers.open("default") as opened:
        assert opened.ledger.mark.ledger != lost.ledger
        await opened.ledger.append(*produce(2))
        assert {one.mark.ledger for one in await replayed(opened.ledger, 3)} == {opened.ledger.mark.ledger}
        assert {one.mark.ledger for one in await replayed(opened.ledger)} == {opened.ledger.mark.ledger, lost.ledger}
    found = await look(data)
    assert isinstance(found, Seen)
    assert found.entries == (*older.entries, b"entry 2")


async def test_a_lost_witness_can_be_accepted_and_damage_cannot(tmp_path) -> None:
    data = tmp_path / "data"
    whole = await fill(data, [produce(0), produce(1)])
    shutil.rmtree(tmp_path / "data.witness")
    assert "it has no readable witness" in accept(str(data))[0]
    assert await look(data) == whole
    segment = data / "default/0/00000002.seg"
    content = bytearray(segment.read_bytes())
    content[4_100] ^= 1
    segment.write_bytes(content)
    (refused,) = accept(str(data))
    assert isinstance(refused, Refused)
    assert "put a whole copy back" in refused.error.detail
    with pytest.raises(NotFound):
        accept(str(tmp_path / "nothing"))


async def test_a_folder_in_use_is_not_accepted(tmp_path) -> None:
    async with open_log(str(tmp_path / "data"), create=True):
        with pytest.raises(LedgerBusy):
            accept(str(tmp_path / "data"))


async def test_dump_shows_everything_also_of_a_ledger_in_use(tmp_path) -> None:
    data = tmp_path / "data"
    await fill(data, [produce(0), ([encode(Probe(7))], [range_of(5)])])
    async with open_log(str(data)) as ledgers, ledgers.open("default") as opened:
        await opened.ledger.append([], [DropRanges((range_of(5).range_id,))])
        await opened.ledger.append([], [TrimRanges("t", 0, 1)])
        items = list(dump(str(data)))
    kinds = Counter(item.kind for item in items)
    assert kinds == {
        "Ledger": 1,
        "Segment": 2,
        "Append": 4,
        "Bytes": 1,
        "Probe": 1,
        "Wrote": 2,
        "Published": 1,
        "Dropped": 1,
        "Trimmed": 1,
        "End": 1,
        "Witness": 1,
    }
    assert [item.position for item in items if item.kind in ("Bytes", "Probe")] == [1, 2]
    assert next(item for item in items if item.kind == "Wrote").fields["file"] == "00000001-00000001.out"


async def test_dump_shows_where_the_damage_is(tmp_path) -> None:
    data = tmp_path / "data"
    await fill(data, [produce(number) for number in range(5)])
    segment = data / "default/0/00000002.seg"
    content = bytearray(segment.read_bytes())
    content[4_096 * 3 + random.Random(1).randrange(200)] ^= 1
    segment.write_bytes(content)
    items = list(dump(str(data)))
    assert [item.position for item in items if item.kind == "Bytes"] == [1, 2]
    assert items[-1].kind == "DAMAGED"
    assert "entry 3" in items[-1].fields["detail"]
    with pytest.raises(NotFound, match="its namespaces: default"):
        list(dump(str(data), "mail"))
