"""Ids exported from another ledger are imported completely or not at all, by one table, and survive a restart."""

import numpy as np
import pyarrow as pa
import pytest

from oncegate.core.claims import Action, LeaseExpiry, Verb, tables
from oncegate.core.errors import BadRequest, LeaseLive, LedgerFull, TooLarge
from oncegate.core.operator_actions import FORGET, IMPORT, Importing
from oncegate.engine.producer_requests import Note
from oncegate.engine.requests import TakeRequest
from oncegate.engine.usecases.operations.carrying import KnownIds
from oncegate.index.claims.lookup import listed
from tests.support.memory_gateway import GatedLedgers, Served, id16, serving, verdicts_of

NOTE = Note("ada", "moved")
NOBODY = bytes(16)


def known_ids(served: Served, **owners: bytes) -> KnownIds:
    """Returns ids by name with their owners; NOBODY means completed."""
    prints = served.namespace.fingerprints().of_array(pa.array(list(owners), pa.string()))
    words = prints & np.array([0xFFFF_FFFF_FFFF_FFFF, 0xFFFF_FFFF], np.uint64)  # as an export has them
    taken = np.frombuffer(b"".join(owners.values()), np.uint64).reshape(-1, 2)
    return KnownIds(words, taken, np.arange(len(owners), dtype=np.uint32))


async def take_in(served: Served, known: KnownIds) -> int:
    imported: int = await served.namespace.operations.carrying.take_in(known, NOTE, served.deadline())
    return imported


async def take(served: Served, owner: int, *ids: str) -> list[str]:
    prints = served.namespace.fingerprints().of_array(pa.array(ids, pa.string()))
    return verdicts_of(await served.shard.claims.take(TakeRequest(id16(owner), prints), served.deadline()))


async def test_done_is_done_and_taken_is_its_owners_also_after_a_restart() -> None:
    ledgers = GatedLedgers()
    async with serving(ledgers) as served:
        ids = known_ids(served, a=NOBODY, b=NOBODY, c=id16(7), d=id16(8))
        assert await take_in(served, ids) == 4
        assert await take_in(served, ids) == 0, "it may be repeated"
        assert served.shard.counters()["takeovers"] == 0
    async with serving(ledgers) as served:
        assert verdicts_of(await served.claim("a", "b", "c", "e")) == [
            "DUPLICATE",
            "DUPLICATE",
            "DUPLICATE",
            "GRANTED",
        ]
        assert [await take(served, 7, "c"), await take(served, 7, "d")] == [["GRANTED"], ["DUPLICATE"]]
        trail = await served.namespace.operations.actions.trail(None, 9)
        assert [(one.action, one.changed, one.who, one.why) for one in trail] == [("import", 4, "ada", "moved")]


async def test_ids_listed_by_one_index_are_imported_by_another() -> None:
    async with serving() as there, serving() as here:
        claimed = await there.claim("a", "b")
        await there.settle(Verb.COMPLETE, claimed.claim)
        await there.claim("open", token=2)
        await take(there, 7, "c")
        parts = list(listed(there.shard.journal.index.claims))
        ids, owners, digests = (np.concatenate(column) for column in list(zip(*parts, strict=True))[:3])
        assert await take_in(here, KnownIds(ids, owners, digests)) == 3
        assert sum(len(one.ids) for one in listed(here.shard.journal.index.claims)) == 3


async def refused(served: Served, error: type[Exception], told: str, **owners: bytes) -> None:
    served.disk.appends.clear()
    with pytest.raises(error, match=told):
        await take_in(served, known_ids(served, fine=NOBODY, **owners))
    assert served.disk.appends == []
    assert await served.namespace.operations.actions.trail(None, 9) == []
    assert (await served.shard.claims.explain(known_ids(served, fine=NOBODY).ids.tobytes())).state.name == "ABSENT"


async def test_ids_of_a_claim_and_of_others_refuse_the_whole_import() -> None:
    async with serving() as served:
        claimed = await served.claim("held")
        await refused(served, LeaseLive, "1 of these ids are held", held=NOBODY)
        await refused(served, LeaseLive, "1 of these ids are held", held=id16(7))
        served.clock.advance(30_000)
        await refused(served, LeaseLive, "1 of these ids are held", held=NOBODY)
        await refused(served, LeaseLive, "1 of these ids are held", held=id16(7))
        await served.settle(Verb.COMPLETE, claimed.claim)
        await refused(served, BadRequest, "1 of these ids belong to an owner there", held=id16(7))
        await take(served, 8, "theirs")
        await refused(served, BadRequest, "1 of these ids belong to an owner there", theirs=id16(7))


async def test_an_id_with_two_owners_too_many_ids_and_a_full_disk_change_nothing() -> None:
    async with serving(ids_per_request=3) as served:
        one = known_ids(served, a=NOBODY, b=id16(7))
        twice = KnownIds(one.ids[[0, 0]], one.owners, one.digests)
        with pytest.raises(BadRequest, match="one id is there twice"):
            await take_in(served, twice)
        with pytest.raises(TooLarge, match="4 ids in one request"):
            await take_in(served, known_ids(served, a=NOBODY, b=NOBODY, c=NOBODY, d=NOBODY))
        served.disk.faults = ["full"]
        with pytest.raises(LedgerFull):
            await take_in(served, one)
        for fingerprint in one.ids:
            assert (await served.shard.claims.explain(fingerprint.tobytes())).state.name == "ABSENT"


def test_the_table_has_a_cell_for_every_answer() -> None:
    asked = {
        (cell.effect, verb == "take")
        for expiry in LeaseExpiry
        for verb in ("take", "look up")
        for cell in tables(expiry)[verb].values()
    }
    # An imported id has no time, so none is older than the retention of ids.
    assert set(IMPORT) == {(action, is_taken) for action, is_taken in asked if action is not Action.STALE}
    assert set(FORGET) == {action for action, is_taken in IMPORT if not is_taken}
    assert {cell.effect for cell in IMPORT.values()} == set(Importing)
