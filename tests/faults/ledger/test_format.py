"""The bytes on disk, permanently: a change here is a new version of the format, not an edit of this file."""

import hashlib

from oncegate.ledgers.catalog import Dropped, Location, Published, Trimmed, Wrote
from oncegate.ledgers.chain import chain_of
from oncegate.ledgers.disk import BLOCK_BYTES, Disk
from oncegate.ledgers.log.files.frames import (
    Body,
    FrameHeader,
    SegmentHeader,
    decode_body,
    decode_header,
    encode_body,
    encode_header,
)
from oncegate.ledgers.log.files.keys import key_check
from oncegate.ledgers.log.files.ledger_list import read_list, write_list
from oncegate.ledgers.witness import End, WitnessRecord

LEDGER = bytes(range(16))
CHAIN = bytes(range(100, 116))
SEGMENT = SegmentHeader(7, 3, 41, LEDGER, bytes(16), b"k" * 16, CHAIN)
BODY = Body(
    [b"one", b""],
    [
        Wrote(b"r" * 16, 5, Location(3, 1, 4_096, 600, b"h" * 32)),
        Published("flights", 0, 12, (b"r" * 16,)),
        Dropped((b"s" * 16,)),
        Trimmed("flights", 0, 10),
    ],
)


def test_the_header_of_a_segment() -> None:
    block = SEGMENT.encode()
    assert len(block) == BLOCK_BYTES
    assert block.rstrip(b"\0").hex() == GOLDEN_SEGMENT
    assert SegmentHeader.decode(block) == SEGMENT


def test_the_header_of_a_frame() -> None:
    raw = encode_body(BODY)
    header = FrameHeader(8_192, len(raw), 41, 2, CHAIN, chain_of(LEDGER, CHAIN, 41, 2, raw))
    encoded = encode_header(LEDGER, 7, header)
    assert encoded.hex() == GOLDEN_FRAME
    data = bytes(8_192) + encoded
    assert decode_header(LEDGER, 7, data, 8_192) == header
    assert decode_header(LEDGER, 8, data, 8_192) is None, "a frame fits one segment,"
    assert decode_header(LEDGER, 7, bytes(4_096) + encoded, 4_096) is None, "one place,"
    assert decode_header(bytes(16), 7, data, 8_192) is None, "and one ledger"


def test_the_body_of_a_frame() -> None:
    raw = encode_body(BODY)
    assert raw.hex() == GOLDEN_BODY
    assert decode_body(memoryview(raw)) == BODY


def test_a_slot_of_the_witness() -> None:
    seen = WitnessRecord(9, LEDGER, 3, End(7, 12_288, 42, CHAIN))
    assert seen.encode().hex() == GOLDEN_WITNESS
    assert WitnessRecord.decode(seen.encode()) == seen


def test_the_list_of_ledgers(tmp_path) -> None:
    write_list(Disk(), tmp_path, {"mail": LEDGER, "default": CHAIN})
    assert hashlib.sha256((tmp_path / "LEDGERS").read_bytes()).hexdigest() == GOLDEN_LIST
    assert read_list(Disk(), tmp_path) == {"default": CHAIN, "mail": LEDGER}


def test_the_check_of_a_key() -> None:
    assert key_check(bytes(32)).hex() == GOLDEN_KEY_CHECK


GOLDEN_SEGMENT = (
    "4f4753310700000003000000000000002900000000000000000102030405060708090a0b0c0d0e0f00000000000000000000"
    "0000000000006b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6465666768696a6b6c6d6e6f70717273314a27a4af7ea467a691e612"
    "28570232"
)
GOLDEN_FRAME = (
    "4f4746318a0000002900000000000000020000006465666768696a6b6c6d6e6f707172734be4ebdc5c530fd554f99909d6fc"
    "6ac068f09040c9519e86"
)
GOLDEN_BODY = (
    "9292c4036f6e65c400949401c4107272727272727272727272727272727205950301cd1000cd0258c4206868686868686868"
    "6868686868686868686868686868686868686868686868689502a7666c6967687473000c91c4107272727272727272727272"
    "7272727272920391c410737373737373737373737373737373739404a7666c6967687473000a"
)
GOLDEN_WITNESS = (
    "4f4757310900000000000000000102030405060708090a0b0c0d0e0f03000000000000000700000000300000000000002a00"
    "0000000000006465666768696a6b6c6d6e6f70717273555aaa9ce467ea3de3a1963f04478f53"
)
GOLDEN_LIST = "988217fabc0b6025b3c500096f22de36a25198121b8d40211568e5281ac9a97d"
GOLDEN_KEY_CHECK = "58f541e51306b1527d3a3ab14c84569e"
