"""The ledger's entries and their bytes: golden files, round trips, and everything else refused."""

import struct
from dataclasses import MISSING, fields, replace
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncegate.core.entries.codec import VERSION, EntryError, EntryVersion, decode, encode
from oncegate.core.entries.fields import INFORMS, Tag
from oncegate.core.entries.kinds import KINDS, Archived, Entry, Name, Part, Span
from tests.core.samples import GOLDEN, SAMPLES

ENTRIES = pytest.mark.parametrize("entry", SAMPLES.values(), ids=SAMPLES)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=24)
U32S, U64S = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
B16S = st.binary(min_size=16, max_size=16)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "u8": st.integers(0, 2**8 - 1),
    "u32": U32S,
    "u64": U64S,
    "b16": B16S,
    "blob": st.binary(max_size=64),
    "text": TEXTS,
    "name": st.builds(Name, TEXTS, TEXTS, TEXTS, TEXTS),
    "opt": st.none() | st.binary(max_size=40),
    "blobs": st.lists(st.binary(max_size=24), max_size=4).map(tuple),
    "parts": st.lists(st.builds(Part, U32S, U32S, U32S, B16S), max_size=4).map(tuple),
    "archives": st.lists(st.builds(Archived, B16S, st.integers(0, 2**8 - 1), U64S, U64S, U64S), max_size=4).map(tuple),
    "spans": st.lists(st.builds(Span, U32S, U64S, U64S, U64S), max_size=4).map(tuple),
}


def values_of(cls: type[Any]) -> dict[str, st.SearchStrategy[Any]]:
    """Returns strategies for each field's values; a tagged field, which may be left out, sometimes has its default."""
    hints = get_type_hints(cls, include_extras=True)
    values = {field.name: VALUES[hints[field.name].__metadata__[0]] for field in fields(cls)}
    left_out = {field.name: field.default for field in fields(cls) if field.default is not MISSING}
    return {name: st.just(left_out[name]) | of if name in left_out else of for name, of in values.items()}


def entries() -> st.SearchStrategy[Entry]:
    return st.sampled_from(list(KINDS.values())).flatmap(lambda cls: st.builds(cls, **values_of(cls)))


def tags_of(cls: type[Any]) -> list[int]:
    hints = get_type_hints(cls, include_extras=True)
    return [tag.number for field in fields(cls) for tag in hints[field.name].__metadata__ if isinstance(tag, Tag)]


def without_tagged(entry: Entry) -> Entry:
    return replace(entry, **{field.name: field.default for field in fields(entry) if field.default is not MISSING})


def tagged(*pairs: tuple[int, bytes]) -> bytes:
    """Encodes these tagged fields as the end of an entry."""
    return bytes((len(pairs),)) + b"".join(struct.pack("<BI", tag, len(data)) + data for tag, data in pairs)


def test_every_kind_has_a_golden_file_and_every_file_its_kind() -> None:
    assert {type(entry) for entry in SAMPLES.values()} == set(KINDS.values())
    assert {path.stem for path in GOLDEN.iterdir()} == set(SAMPLES)


def test_numbers_of_kinds_are_never_given_twice() -> None:
    assert sorted(KINDS) == [*range(1, 19), *range(20, 34)]


@pytest.mark.parametrize("name", SAMPLES)
def test_bytes_are_those_of_the_golden_file(name: str) -> None:
    golden = bytes.fromhex((GOLDEN / f"{name}.hex").read_text())
    assert encode(SAMPLES[name]).hex() == golden.hex()
    assert decode(golden) == SAMPLES[name]


@given(entry=entries())
def test_entries_are_decoded_as_they_were_encoded(entry: Entry) -> None:
    data = encode(entry)
    assert decode(data) == entry
    assert (data[0], data[1]) == (entry.KIND, VERSION)


@given(entry=entries(), data=st.data())
def test_any_entry_cut_anywhere_is_refused(entry: Entry, data: st.DataObject) -> None:
    whole = encode(entry)
    with pytest.raises(EntryError):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


@ENTRIES
def test_every_cut_is_refused(entry: Entry) -> None:
    whole = encode(entry)
    for length in range(len(whole)):
        with pytest.raises(EntryError):
            decode(whole[:length])


@ENTRIES
def test_a_byte_too_many_is_refused(entry: Entry) -> None:
    with pytest.raises(EntryError, match="left over"):
        decode(encode(entry) + b"\0")


def test_unknown_kinds_are_refused() -> None:
    for kind in set(range(256)) - set(KINDS):
        with pytest.raises(EntryError, match="not an entry"):
            decode(bytes((kind, VERSION)) + bytes(200))


@ENTRIES
def test_unknown_versions_are_refused(entry: Entry) -> None:
    data = encode(entry)
    for version in set(range(256)) - {VERSION}:
        with pytest.raises(EntryVersion, match=f"entry of version {version}, but this program reads version {VERSION}"):
            decode(data[:1] + bytes((version,)) + data[2:])


def test_what_may_be_left_out_has_a_tag_and_tags_rise() -> None:
    for cls in KINDS.values():
        optional = [field for field in fields(cls) if field.default is not MISSING]
        assert tags_of(cls) == sorted(set(tags_of(cls)))
        assert len(tags_of(cls)) == len(optional)


@given(entry=entries(), tags=st.sets(st.integers(INFORMS, 255), max_size=4), data=st.binary(max_size=40))
def test_an_unknown_tag_that_informs_changes_nothing(entry: Entry, tags: set[int], data: bytes) -> None:
    plain = without_tagged(entry)
    unknown = [(tag, data) for tag in sorted(tags) if tag not in tags_of(type(entry))]
    assert decode(encode(plain)[:-1] + tagged(*unknown)) == plain


@ENTRIES
def test_the_first_tag_that_informs_changes_nothing(entry: Entry) -> None:
    plain = without_tagged(entry)
    first = next(tag for tag in range(INFORMS, 256) if tag not in tags_of(type(entry)))
    assert decode(encode(plain)[:-1] + tagged((first, b"later"))) == plain


@ENTRIES
def test_an_unknown_tag_that_changes_the_meaning_is_refused(entry: Entry) -> None:
    data = encode(without_tagged(entry))
    for tag in set(range(INFORMS)) - set(tags_of(type(entry))):
        with pytest.raises(EntryError, match=f"unknown tag {tag}, which changes the meaning of the entry"):
            decode(data[:-1] + tagged((tag, b"")))


@pytest.mark.parametrize("pair", [(200, 200), (201, 200), (255, 128)], ids=str)
def test_tags_that_come_twice_or_out_of_order_are_refused(pair: tuple[int, int]) -> None:
    data = encode(SAMPLES["probe"])
    with pytest.raises(EntryError, match=f"tag {pair[1]} after tag {pair[0]}"):
        decode(data[:-1] + tagged(*((tag, b"") for tag in pair)))


def test_a_tagged_field_with_a_default_or_extra_data_is_refused() -> None:
    """An entry has one encoding: other bytes that would decode to the same entry are invalid."""
    data = encode(SAMPLES["claimed"])
    with pytest.raises(EntryError, match="tag 1 holds its default and must be absent"):
        decode(data[:-1] + tagged((1, bytes(4))))
    with pytest.raises(EntryError, match="left over"):
        decode(data[:-1] + tagged((1, b"\1\0\0\0ab")))


def test_a_count_of_tags_that_is_too_large_is_refused() -> None:
    with pytest.raises(EntryError, match="ends inside"):
        decode(encode(SAMPLES["probe"])[:-1] + b"\1")


def test_an_omitted_field_costs_one_byte() -> None:
    assert encode(SAMPLES["probe"])[-1:] == tagged()
    assert len(encode(SAMPLES["probe"])) == 2 + 8 + 1


def test_a_text_that_is_not_utf8_is_refused() -> None:
    data = encode(SAMPLES["produced"])
    assert data[4:14] == b"departures"
    with pytest.raises(EntryError, match="UTF-8"):
        decode(data[:4] + b"\xff" + data[5:])


def test_a_flag_that_is_neither_none_nor_a_value_is_refused() -> None:
    """An entry has one encoding: other bytes that would decode to the same entry are invalid."""
    data = encode(SAMPLES["committed_unknown"])
    at = data.index(b"\0" + bytes(range(0xA0, 0xB0)))
    with pytest.raises(EntryError, match="neither none nor a value"):
        decode(data[:at] + b"\2" + data[at + 1 :])


def test_a_length_beyond_the_end_is_refused_without_taking_memory() -> None:
    data = bytearray(encode(SAMPLES["dropped"]))
    at = bytes(data).index(b"\2\0\0\0\x10\0\0\0")
    data[at : at + 4] = b"\xff\xff\xff\xff"
    with pytest.raises(EntryError, match="ends inside"):
        decode(bytes(data))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("completed", {"claim": bytes(15)}),
        ("completed", {"claim": bytes(17)}),
        ("completed", {"wall_ms": -1}),
        ("completed", {"wall_ms": 2**64}),
        ("claimed", {"call": 2**32}),
        ("opened", {"fingerprint_function": 256}),
        ("staged", {"parts": (Part(0, 1, 1, bytes(15)),)}),
        ("staged", {"parts": (Part(0, 1, 1, bytes(17)),)}),
        ("staged", {"parts": (Part(2**32, 1, 1, bytes(16)),)}),
        ("committed", {"spans": (Span(0, 2**64, 1, 1),)}),
        ("committed", {"spans": (Span(0, 0, -1, 1),)}),
        ("retired", {"before_wall_ms": -1}),
        ("produced", {"topic": "x" * 65_536}),
        ("produced", {"topic": "\udc80"}),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_its_field_is_not_encoded(name: str, change: dict[str, Any]) -> None:
    with pytest.raises((ValueError, struct.error)):
        encode(replace(SAMPLES[name], **change))


def test_entries_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        SAMPLES["probe"].wall_ms = 1  # type: ignore[misc, union-attr]
