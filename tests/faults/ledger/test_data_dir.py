"""The data folder: missing, in use, read-only, moved, exchanged, restored from an older copy, or removed."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from oncegate.core.errors import BadRequest, KeyMismatch, LedgerBusy, LedgerDamaged, LedgerDown, LedgerFenced, NotFound
from oncegate.ledgers import open_ledgers
from oncegate.ledgers.log import open_log
from oncegate.ledgers.log.files.keys import write_new_key
from oncegate.ledgers.log.locks import OWNER_NAME
from tests.support.ledger_tools import Append, QuietDisk, Seen, creates_data_folder, fill, look, produce

SOME: list[Append] = [produce(0), produce(1)]


def names_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


async def test_a_missing_folder_is_not_made_unless_asked(tmp_path) -> None:
    found = await look(tmp_path / "data")
    assert isinstance(found, NotFound)
    assert "`oncegate init` makes one" in found.detail
    assert names_of(tmp_path) == set()
    async with open_ledgers(f"log:{tmp_path}/data", create=True) as ledgers:
        assert ledgers.names() == ["default"]
    async with open_ledgers(f"{tmp_path}/data", create=True) as ledgers:
        assert ledgers.names() == ["default"]
    assert creates_data_folder(tmp_path / "data") is False
    assert creates_data_folder(tmp_path / "other") is True


@pytest.mark.parametrize("volume", [False, True], ids=["a new folder", "an empty volume"])
async def test_a_start_that_fails_before_it_opens_a_ledger_leaves_nothing_of_a_new_folder(tmp_path, volume) -> None:
    if volume:
        (tmp_path / "data/lost+found").mkdir(parents=True)
    before = names_of(tmp_path)
    with pytest.raises(ZeroDivisionError):
        async with open_log(str(tmp_path / "data"), create=True, reserve_bytes=1 << 20):
            raise ZeroDivisionError
    assert names_of(tmp_path) == before
    async with open_log(str(tmp_path / "data"), create=True) as ledgers:
        assert ledgers.names() == ["default"]
    before = names_of(tmp_path)
    with pytest.raises(ZeroDivisionError):
        async with open_log(str(tmp_path / "data"), create=True):
            raise ZeroDivisionError
    assert names_of(tmp_path) == before, "earlier files stay"


async def test_a_new_folder_whose_ledger_was_opened_stays_whatever_ends_it(tmp_path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_log(str(tmp_path / "data"), create=True) as ledgers, ledgers.open("default"):
            raise ZeroDivisionError
    assert await look(tmp_path / "data") == Seen((), ())


async def test_a_new_folder_whose_witness_cannot_be_leaves_nothing_and_one_that_is_anothers_stays(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerDown):
        async with open_log(str(tmp_path / "far" / "data"), create=True, witness=str(tmp_path / "file")):
            raise AssertionError("it is not opened")
    assert names_of(tmp_path) == {"file"}
    async with open_log(str(tmp_path / "data"), create=True):
        before = names_of(tmp_path)
        with pytest.raises(LedgerDamaged):
            async with open_log(str(tmp_path / "other"), create=True, witness=str(tmp_path / "data.witness")):
                raise AssertionError("it is not opened")
        assert names_of(tmp_path) == before


@pytest.mark.parametrize("inside", ["data/new", "data.witness/new", "data/default/0/new"])
async def test_a_new_folder_is_not_inside_another_one(tmp_path, inside) -> None:
    assert await look(tmp_path / "data", create=True) == Seen((), ())
    before = names_of(tmp_path)
    found = await look(tmp_path / inside, create=True)
    assert isinstance(found, BadRequest)
    assert "which has ledgers of its own" in found.detail
    assert names_of(tmp_path) == before


async def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(NotFound, match="no ledger of scheme sqlite: there are memory, log"):
        open_ledgers("sqlite:here")


async def test_a_folder_with_other_things_in_it_is_refused(tmp_path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/thesis.tex").write_text("all of it")
    found = await look(tmp_path / "data", create=True)
    assert isinstance(found, LedgerDamaged)
    assert "is not empty and has no list of ledgers" in found.detail
    assert names_of(tmp_path) == {"data", "data/thesis.tex"}


async def test_an_empty_volume_is_as_good_as_no_folder(tmp_path) -> None:
    (tmp_path / "data/lost+found").mkdir(parents=True)
    assert isinstance(await look(tmp_path / "data"), NotFound)
    assert await look(tmp_path / "data", create=True) == Seen((), ())


async def test_the_witness_may_not_be_in_the_folder_that_it_guards(tmp_path) -> None:
    with pytest.raises(BadRequest, match="what takes one would take both"):
        async with open_log(str(tmp_path / "data"), create=True, witness=str(tmp_path / "data/w")):
            pass


async def test_a_witness_elsewhere_is_used_and_required(tmp_path) -> None:
    elsewhere = str(tmp_path / "far/away")
    async with open_log(str(tmp_path / "data"), create=True, witness=elsewhere) as ledgers, ledgers.open("default"):
        pass
    found = await look(tmp_path / "data")
    assert isinstance(found, LedgerDamaged)
    assert "the witness of data folder" in found.detail
    async with open_log(str(tmp_path / "data"), witness=elsewhere) as ledgers, ledgers.open("default") as opened:
        assert opened.history.epoch == 2


async def test_the_witness_of_another_folder_is_refused(tmp_path) -> None:
    await fill(tmp_path / "data", SOME)
    await fill(tmp_path / "other", SOME)
    with pytest.raises(LedgerDamaged, match="they do not belong together; name the right witness"):
        async with open_log(str(tmp_path / "data"), witness=str(tmp_path / "other.witness")):
            pass


OWN = (
    "import asyncio, sys\nfrom oncegate.ledgers.log import open_log\n"
    + """
async def main():
    async with open_log(sys.argv[1]) as ledgers, ledgers.open("default"):
        print("owned", flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""
)


@pytest.mark.slow
async def test_a_folder_in_use_is_refused_also_when_the_owner_file_is_gone(tmp_path) -> None:
    data = tmp_path / "data"
    whole = await fill(data, SOME)
    with subprocess.Popen([sys.executable, "-c", OWN, str(data)], stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            assert owner.stdout.readline() == "owned\n"
            before = names_of(tmp_path)
            found = await look(data)
            assert isinstance(found, LedgerBusy)
            head, tail = found.detail.split(" (since ")
            assert head == f"data folder {data} is owned by process {owner.pid}"
            assert tail[5:] == "); two owners would both grant. Stop that one, or give this one another folder."
            owner.send_signal(signal.SIGSTOP)
            assert isinstance(await look(data), LedgerBusy), "a stopped owner still owns"
            (data / OWNER_NAME).unlink()
            found = await look(data)
            assert isinstance(found, LedgerBusy)
            assert "is owned by another process; two owners would both grant" in found.detail
            assert names_of(tmp_path) == before - {f"data/{OWNER_NAME}"}
        finally:
            owner.kill()
    assert await look(data) == whole, "the system releases the lock when the owner dies"


async def test_one_process_owns_a_folder_and_a_ledger_once(tmp_path) -> None:
    data = tmp_path / "data"
    await fill(data, SOME)
    async with open_log(str(data)) as ledgers, ledgers.open("default") as opened:
        assert isinstance(await look(data), LedgerBusy)
        with pytest.raises(LedgerBusy, match="ledger default in data folder"):
            async with ledgers.open("default"):
                pass
        await opened.ledger.append([b"still the owner"], [])


async def test_two_folders_cannot_share_a_witness(tmp_path) -> None:
    await fill(tmp_path / "data", SOME)
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    witness = str(tmp_path / "data.witness")
    async with open_log(str(tmp_path / "data")):
        with pytest.raises(LedgerBusy, match=r"witness .* is owned by"):
            async with open_log(str(tmp_path / "copy"), witness=witness):
                pass


@pytest.mark.parametrize("moved", ["data", "data/default/0", "data.witness"])
async def test_an_owner_whose_folder_was_exchanged_is_fenced(tmp_path, moved) -> None:
    """Another process may own the folder that now has the name; this one's writes go to the moved folder."""
    data = tmp_path / "data"
    await fill(data, SOME)
    async with open_log(str(data)) as ledgers, ledgers.open("default") as opened:
        (tmp_path / moved).rename(tmp_path / "away")
        shutil.copytree(tmp_path / "away", tmp_path / moved)
        with pytest.raises(LedgerFenced, match="no longer the folder that was opened"):
            await opened.ledger.append([b"lost"], [])
        with pytest.raises(LedgerFenced):
            await opened.ledger.fetch("t", 0, 0, 1, 1 << 40)
    seen = await look(data)
    assert isinstance(seen, Seen)
    assert b"lost" not in seen.entries


async def test_a_folder_that_was_removed_fences_its_owner(tmp_path) -> None:
    data = tmp_path / "data"
    async with open_log(str(data), create=True) as ledgers, ledgers.open("default") as opened:
        shutil.rmtree(data)
        with pytest.raises(LedgerFenced):
            await opened.ledger.append([b"lost"], [])
        with pytest.raises(LedgerFenced):
            await ledgers.create("more")


async def test_an_older_copy_is_refused_with_both_positions(tmp_path) -> None:
    data = tmp_path / "data"
    await fill(data, SOME)
    shutil.copytree(data, tmp_path / "backup")
    newer = await fill(data, [produce(2), ([b"more"] * 3, [])])
    data.rename(tmp_path / "newer")
    (tmp_path / "backup").rename(data)
    found = await look(data)
    assert isinstance(found, LedgerDamaged)
    assert "ends at position 2 " in found.detail
    assert "saw position 6 " in found.detail
    assert "4 acknowledged entries would be forgotten" in found.detail
    assert "`oncegate ledger accept`" in found.detail
    shutil.rmtree(data)
    (tmp_path / "newer").rename(data)
    assert await look(data) == newer


async def test_an_older_copy_that_went_on_is_refused(tmp_path) -> None:
    """The copy has the expected length, but another history: it was opened once with another witness."""
    data = tmp_path / "data"
    await fill(data, SOME)
    for name in ("data", "data.witness"):
        shutil.copytree(tmp_path / name, tmp_path / "elsewhere" / name)
    await fill(data, [produce(2)])
    await fill(tmp_path / "elsewhere/data", [([b"x"], []), ([b"y"], []), ([b"z"], [])])
    shutil.rmtree(data)
    (tmp_path / "elsewhere/data").rename(data)
    found = await look(data)
    assert isinstance(found, LedgerDamaged)
    assert "an older copy that went on" in found.detail


async def test_another_key_is_refused(tmp_path) -> None:
    data = tmp_path / "data"
    await fill(data, SOME)
    assert (data / "default/key").stat().st_mode & 0o777 == 0o600
    right = (data / "default/key").read_bytes()
    write_new_key(QuietDisk(), data / "default")
    found = await look(data)
    assert isinstance(found, KeyMismatch)
    assert "put the right key file back" in found.detail
    (data / "default/key").unlink()
    assert "is missing; without it every id would look new" in str(await look(data))
    (data / "default/key").write_bytes(right[:40])
    assert "cannot be read" in str(await look(data))


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize(
    "gone", ["data", "data/default", "data/default/0", "data.witness", "data.witness/default.witness"]
)
async def test_a_ledger_that_is_still_known_elsewhere_is_never_recreated(tmp_path, gone, create) -> None:
    data = tmp_path / "data"
    await fill(data, SOME)
    shutil.rmtree(tmp_path / gone) if (tmp_path / gone).is_dir() else (tmp_path / gone).unlink()
    before = names_of(tmp_path) - {"data/OWNER"}
    found = await look(data, create=create)
    assert isinstance(found, LedgerDamaged)
    assert "gone" in found.detail or "is missing" in found.detail
    assert names_of(tmp_path) - {"data/OWNER"} == before


@pytest.mark.parametrize("gone", [["data/LEDGERS"], ["data.witness/LEDGERS"], ["data/LEDGERS", "data.witness/LEDGERS"]])
async def test_a_lost_list_is_not_a_new_folder(tmp_path, gone) -> None:
    await fill(tmp_path / "data", SOME)
    for name in gone:
        (tmp_path / name).unlink()
    found = await look(tmp_path / "data", create=True)
    assert isinstance(found, LedgerDamaged)
    assert "list of ledgers" in found.detail


async def test_older_lists_make_nothing_new_of_a_namespace(tmp_path) -> None:
    """Lists from before the namespace was created: creating it again must not empty it."""
    data = tmp_path / "data"
    await fill(data, [])
    for name in ("data", "data.witness"):
        shutil.copy(tmp_path / name / "LEDGERS", tmp_path / f"{name}.list")
    async with open_log(str(data)) as ledgers:
        await ledgers.create("mail")
        async with ledgers.open("mail") as opened:
            await opened.ledger.append([b"x"], [])
    for name in ("data", "data.witness"):
        shutil.copy(tmp_path / f"{name}.list", tmp_path / name / "LEDGERS")
    async with open_log(str(data)) as ledgers:
        assert ledgers.names() == ["default"]
        with pytest.raises(LedgerDamaged, match="that no list names any more"):
            await ledgers.create("mail")
        (tmp_path / "data.witness/mail.witness").unlink()
        with pytest.raises(LedgerDamaged, match="no list of ledgers names it"):
            await ledgers.create("mail")


@pytest.mark.parametrize("name", ["", "a/b", "..", "Ab", "x" * 65, "a b", "-a", "ä", "a\n"])
async def test_a_namespace_that_cannot_be_a_folder_is_refused(tmp_path, name) -> None:
    async with open_log(str(tmp_path / "data"), create=True) as ledgers:
        with pytest.raises(BadRequest):
            await ledgers.create(name)
        with pytest.raises(NotFound, match="PUT /v1/namespaces/"):
            async with ledgers.open(name):
                pass


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
@pytest.mark.parametrize("which", ["data", "data.witness"])
async def test_a_read_only_folder_is_refused(tmp_path, which) -> None:
    data = tmp_path / "data"
    whole = await fill(data, SOME)
    target = tmp_path / which
    if subprocess.run(["mount", "--bind", str(target), str(target)], capture_output=True, check=False).returncode:
        pytest.skip("mounting is not possible here")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(target)], check=True)
        found = await look(data)
        assert isinstance(found, LedgerDown)
        assert "Read-only file system" in found.detail
    finally:
        subprocess.run(["umount", str(target)], check=True)
    assert await look(data) == whole


async def test_a_file_in_place_of_the_folder_is_refused(tmp_path) -> None:
    (tmp_path / "data").write_text("no folder")
    assert isinstance(await look(tmp_path / "data", create=True), LedgerDown)
