"""Computes AES-128-CMAC (RFC 4493, NIST SP 800-38B) of many messages at once, by columns.

Column j is the j-th 16-byte block of every message that has one. All blocks of a column are encrypted in one call, so a
message costs the time of its blocks instead of that of an object. Few or very long messages use the library's own CMAC
if that is cheaper, one object each. The result is the same either way.
"""

import itertools
from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.cmac import CMAC
from numpy.typing import NDArray

from oncegate.hashing.byte_strings import Octets
from oncegate.hashing.kernels import fixed_input, take_blocks

BLOCK_BYTES = 16
TILE_ROWS = 4_096  # scratch arrays of 64 KiB each stay in the second-level cache
FEW_ROWS = 40  # as many objects cost what the columns cost to set up
FEW_BLOCKS = 7  # as many cost what setting a cipher up costs

# Rough costs in ns, measured once; wrong ones cost time and nothing else.
_OBJECT_NS, _OBJECT_BLOCK_NS = 1_500, 16  # one CMAC object, and each block it reads
_COLUMN_NS, _CELL_NS = 12_000, 10  # one column, and each block in it

_ITEM = np.dtype("V16")
Words = NDArray[np.uint64]
Encrypt = Callable[[memoryview, memoryview], int]


class Cmac:
    """Computes CMACs under one 16-byte AES key. Stateless after construction, so threads may share an object."""

    def __init__(self, aes_key: bytes) -> None:
        if len(aes_key) != BLOCK_BYTES:
            raise ValueError(f"an AES-128 key has 16 bytes, this one {len(aes_key)}")
        self._aes = algorithms.AES(aes_key)
        self._one = CMAC(self._aes)
        full, partial = _subkeys(self._encrypt_block(bytes(BLOCK_BYTES)))
        self._keep, self._finish = _last_block_tables(full, partial)

    @cached_property
    def _whole(self) -> Words:
        """Returns the value that is xored into a complete last block, for each row of a tile."""
        return np.tile(self._finish[BLOCK_BYTES], TILE_ROWS)

    def of_octets(self, octets: Octets) -> Words:
        """Returns one CMAC per message, in order: (n, 2) C-contiguous; `.tobytes()` concatenates them."""
        rows = len(octets.lengths)
        if rows <= FEW_ROWS:
            return self._one_by_one(octets)
        if octets.stride is None:
            return self._any_lengths(octets)
        blocks = -(-octets.stride // BLOCK_BYTES)
        tiles = -(-rows // TILE_ROWS)
        if rows * (_OBJECT_NS + blocks * _OBJECT_BLOCK_NS) < blocks * (tiles * _COLUMN_NS + rows * _CELL_NS):
            return self._one_by_one(octets)
        return self._equal_lengths(octets, octets.stride)

    def _encrypt_block(self, block: bytes) -> bytes:
        return Cipher(self._aes, modes.ECB()).encryptor().update(block)  # noqa: S305 - the raw block cipher

    def _encryptor(self) -> Encrypt:
        """Returns a new encryptor for each call, since threads must not share one."""
        encrypt: Encrypt = Cipher(self._aes, modes.ECB()).encryptor().update_into  # noqa: S305 - as above
        return encrypt

    def of_blocks(self, data: bytes | memoryview) -> Words:
        """Like `of_octets`, for contiguous messages of exactly one block each."""
        words, rows = np.frombuffer(data, np.uint64), len(data) // BLOCK_BYTES
        if rows <= FEW_BLOCKS:
            return self.of_few([bytes(data[at : at + BLOCK_BYTES]) for at in range(0, len(data), BLOCK_BYTES)])
        encrypt, state = self._encryptor(), _State(rows)
        for first in range(0, rows, TILE_ROWS):
            # One long row: on pairs of words the inner loops would have a length of two.
            cells = words[2 * first : 2 * (first + TILE_ROWS)]
            cells = cells ^ self._whole[: len(cells)]
            state.absorb(cells.reshape(-1, 2), slice(first, first + TILE_ROWS), True, encrypt)
        return state.words

    def of_few(self, messages: Iterable[bytes]) -> Words:
        """Like `of_octets`, with one object per message. The result is writeable, as the kernels require."""
        macs = bytearray()
        for message in messages:
            mac = self._one.copy()
            mac.update(message)
            macs += mac.finalize()
        return np.frombuffer(macs, np.uint64).reshape(-1, 2)

    def _one_by_one(self, octets: Octets) -> Words:
        return self.of_few(octets.messages())

    def _equal_lengths(self, octets: Octets, length: int) -> Words:
        encrypt = self._encryptor()
        state = _State(len(octets.lengths))
        for first in range(0, len(octets.lengths), TILE_ROWS):
            rows = slice(first, min(first + TILE_ROWS, len(octets.lengths)))
            for at in range(0, max(length, 1), BLOCK_BYTES):
                taken = min(BLOCK_BYTES, length - at)
                cells = octets.strided(rows, at, taken)
                if at + BLOCK_BYTES >= length:
                    # Two strided scalars: broadcasting a pair would run inner loops of length two.
                    cells[:, 0] ^= self._finish[taken, 0]
                    cells[:, 1] ^= self._finish[taken, 1]
                state.absorb(cells, rows, at == 0, encrypt)
        return state.words

    def _any_lengths(self, octets: Octets) -> Words:
        blocks = np.maximum((octets.lengths + (BLOCK_BYTES - 1)) >> 4, 1)
        # 16-bit keys use numpy's radix sort. Rows of equal block count keep their order, so reads stay close together.
        keys = blocks.astype(np.uint16) if blocks.max() < 1 << 16 else blocks
        order = np.argsort(keys, kind="stable")
        out = np.empty(len(order), _ITEM)
        encrypt = self._encryptor()
        for first in range(0, len(order), TILE_ROWS):
            rows = order[first : first + TILE_ROWS]
            bounds = _bounds(blocks.take(rows))
            columns, alone = rows[: bounds[-1]], rows[bounds[-1] :]
            out[columns] = self._tile(octets.pick(columns), bounds, encrypt).view(_ITEM)[:, 0]
            if len(alone):
                out[alone] = self._one_by_one(octets.pick(alone)).view(_ITEM)[:, 0]
        return out.view(np.uint64).reshape(-1, 2)

    def _tile(self, octets: Octets, bounds: list[int], encrypt: Encrypt) -> Words:
        """Returns CMACs of rows in ascending order of their block counts. bounds[j]: number of rows with at most j
        blocks.
        """
        state = _State(bounds[-1])
        data, starts, lengths = fixed_input(octets.data), octets.starts, octets.lengths
        cells = np.empty((bounds[-1], 2), np.uint64)
        for column, (first, _) in enumerate(itertools.pairwise(bounds)):
            at, taken = column * BLOCK_BYTES, cells[first:]
            take_blocks(data, starts, lengths, at, first, self._keep, self._finish, state.words, taken)
            state.encrypt(taken, slice(first, bounds[-1]), encrypt)
        return state.words


class _State:
    """The chaining values of some rows; after a row's last block its chaining value is the CMAC."""

    def __init__(self, rows: int) -> None:
        # update_into() requires 15 bytes of room beyond its output.
        self._bytes = np.empty((rows + 1) * BLOCK_BYTES, np.uint8)
        self.words: Words = self._bytes[: rows * BLOCK_BYTES].view(np.uint64).reshape(rows, 2)

    def absorb(self, cells: Words, rows: slice, is_first: bool, encrypt: Encrypt) -> None:
        """Encrypts `cells` (overwritten), xored with the state except in the first block, into the state of `rows`."""
        if not is_first:
            cells ^= self.words[rows]
        self.encrypt(cells, rows, encrypt)

    def encrypt(self, cells: Words, rows: slice, encrypt: Encrypt) -> None:
        """Encrypts `cells`, already xored with the state, into the state of `rows`."""
        encrypt(cells.reshape(-1).view(np.uint8).data, self._bytes[rows.start * BLOCK_BYTES :].data)


def _bounds(blocks: NDArray[np.int64]) -> list[int]:
    """Returns the numbers of rows with at most 0, 1, 2, … blocks, up to the length above which the few longer rows are
    cheaper as objects.
    """
    counts = np.bincount(blocks)
    sizes = np.arange(len(counts))
    alone = (counts * (_OBJECT_NS + _OBJECT_BLOCK_NS * sizes))[::-1].cumsum()[::-1]
    columns = _COLUMN_NS * sizes + _CELL_NS * (counts * sizes).cumsum()
    columns[:-1] += alone[1:]
    bounds: list[int] = counts.cumsum()[: int(columns.argmin()) + 1].tolist()
    return bounds


def _subkeys(zero: bytes) -> tuple[bytes, bytes]:
    """Returns K1 and K2 of RFC 4493, section 2.3, from the encrypted zero block."""
    first = _double(int.from_bytes(zero, "big"))
    return first.to_bytes(BLOCK_BYTES, "big"), _double(first).to_bytes(BLOCK_BYTES, "big")


def _double(value: int) -> int:
    return (value << 1) & ((1 << 128) - 1) ^ (0x87 if value >> 127 else 0)


def _last_block_tables(full: bytes, partial: bytes) -> tuple[Words, Words]:
    """Returns two tables, indexed by the number of bytes in a last block (0 to 16): the byte mask, and the padding
    xored with the subkey.
    """
    keep, finish = np.zeros((17, 16), np.uint8), np.zeros((17, 16), np.uint8)
    for left in range(BLOCK_BYTES):
        keep[left, :left] = 0xFF
        finish[left, left] = 0x80
        finish[left] ^= np.frombuffer(partial, np.uint8)
    keep[BLOCK_BYTES] = 0xFF
    finish[BLOCK_BYTES] = np.frombuffer(full, np.uint8)
    return keep.view(np.uint64), finish.view(np.uint64)
