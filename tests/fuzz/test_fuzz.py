"""Every reader gets a few damaged samples here and thousands in `make fuzz`; a reader that fails is detected."""

import os
import struct

import pytest

from tests.fuzz.__main__ import main
from tests.fuzz.formats import FORMATS, Format
from tests.fuzz.run import fuzzed

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))


@pytest.mark.parametrize("one", FORMATS, ids=lambda one: one.name)
def test_damaged_bytes_are_read_or_refused_in_the_words_of_their_reader(one: Format) -> None:
    print(f"ONCEGATE_SEED={SEED}")
    fuzzed(one, 30, SEED)


@pytest.mark.parametrize("one", FORMATS, ids=lambda one: one.name)
def test_the_first_sample_of_each_format_is_good(one: Format) -> None:
    """Otherwise the damage would reach only the first check."""
    assert one.read(one.samples()[0]) is not None


def test_a_reader_that_fails_on_one_flipped_bit_is_found_and_its_bytes_are_reported() -> None:
    def careless(data: bytes) -> None:
        if len(data) < 4 or data[:2] != b"OG":
            raise ValueError("no magic")
        struct.unpack_from(f"<{data[2]}Q", data, 4)

    with pytest.raises(struct.error) as stumbled:
        fuzzed(Format("careless", lambda: [b"OG\x01\x00" + bytes(8)], careless, (ValueError,)), 500, SEED)
    assert any("careless: bytes.fromhex('4f47" in note for note in stumbled.value.__notes__)


def test_the_command_names_what_there_is_when_it_is_asked_for_something_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from contextlib import nullcontext

    monkeypatch.setattr("tests.fuzz.__main__.opened", lambda: nullcontext(()))
    assert main(["no such format"]) == 1
    assert main(["packed", "--examples", "5", "--seed", "1"]) == 0
    told = capsys.readouterr().out
    assert "there is no format" in told
    assert "seed 1" in told
