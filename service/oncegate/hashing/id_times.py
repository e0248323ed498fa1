"""Reads the creation time from ids: uint64 milliseconds since 1970, for a whole array at a time.

Two kinds of ids have one: ids of the clients' `EventIds`, `<12 hexadecimal digits of ms>-<number>-<process>@<server>`
(like Photon's event ids, SIGMOD 2013), and UUIDs of version 7 (RFC 9562, 5.7), as 16 raw bytes or as text.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oncegate.core.errors import BadRequest
from oncegate.hashing.byte_strings import Octets, plain
from oncegate.hashing.ids import Fingerprinter

ReadTimes = Callable[[pa.Array], NDArray[np.uint64]]

_EVENT_ID = "^[0-9a-f]{12}-[0-9a-f]{4,}-[0-9a-f]+@[A-Za-z0-9.-]{1,100}$"
_UUID7 = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$"
_DIGITS = np.zeros(256, np.uint64)
for _at, _digit in enumerate(b"0123456789abcdef"):
    _DIGITS[_digit] = _DIGITS[ord(chr(_digit).upper())] = _at
# Positions of the twelve digits of milliseconds in each text.
_IN_EVENT_ID, _IN_UUID = np.arange(12), np.array([*range(8), *range(9, 13)])
_WEIGHTS = np.uint64(16) ** np.arange(11, -1, -1, dtype=np.uint64)
_PLACES_SHOWN = 10


def of_event_ids(array: pa.Array) -> NDArray[np.uint64]:
    """Returns the creation times of `EventIds` ids. Raises BadRequest for other ids."""
    array = plain(array)
    _refuse(~pc.match_substring_regex(array, _EVENT_ID).to_numpy(zero_copy_only=False), "event_id")
    return _of_digits(Octets.of_array(array), _IN_EVENT_ID)


def of_uuids(array: pa.Array) -> NDArray[np.uint64]:
    """Returns the creation times of UUIDs of version 7: binary values of 16 bytes, or text. Raises BadRequest for other
    ids.
    """
    array = plain(array)
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        _refuse(~pc.match_substring_regex(array, _UUID7).to_numpy(zero_copy_only=False), "uuid7")
        return _of_digits(Octets.of_array(array), _IN_UUID)
    octets = Octets.of_array(array)
    _refuse(octets.lengths != 16, "uuid7")
    raw = octets.data[octets.starts[:, None] + np.arange(16)]
    _refuse((raw[:, 6] >> 4 != 7) | (raw[:, 8] >> 6 != 2), "uuid7")
    high, low = raw[:, :2].copy().view(">u2")[:, 0], raw[:, 2:6].copy().view(">u4")[:, 0]
    made: NDArray[np.uint64] = high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
    return made


def _of_digits(octets: Octets, digit_offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    digits = _DIGITS[octets.data[octets.starts[:, None] + digit_offsets]]
    made: NDArray[np.uint64] = (digits * _WEIGHTS).sum(axis=1, dtype=np.uint64)
    return made


def _refuse(without: NDArray[np.bool_], form: str) -> None:
    rows = np.flatnonzero(without)
    if len(rows):
        raise BadRequest(
            f"{len(rows)} ids do not carry their time as `id_time` of this namespace says ({form}), the first at "
            f"places {rows[:_PLACES_SHOWN].tolist()}: whether they are past the horizon cannot be told; nothing was "
            "written",
            places=rows[:_PLACES_SHOWN].tolist(),
        )


class TimedFingerprinter(Fingerprinter):
    """Computes the fingerprints of one request's ids, and their creation times: `made_ms`, uint64[n].

    Raises BadRequest for ids without a time, and for ids of several columns.
    """

    def __init__(self, of: Fingerprinter, read: ReadTimes) -> None:
        self._of, self._read = of, read
        self.made_ms: NDArray[np.uint64] = np.empty(0, np.uint64)

    def of_packed(self, data: bytes | memoryview) -> NDArray[np.uint64]:
        """Returns fingerprints (n, 2) of n ids of 16 raw bytes each."""
        fingerprints = self._of.of_packed(data)
        self.made_ms = self._read(pa.Array.from_buffers(pa.binary(16), len(fingerprints), [None, pa.py_buffer(data)]))
        return fingerprints

    def of_few(self, messages: Sequence[bytes]) -> NDArray[np.uint64]:
        """Like `of_array`, for a few ids, each a UTF-8 text in a `bytes` object."""
        self.made_ms = self._read(pa.array([message.decode() for message in messages], pa.string()))
        return self._of.of_few(messages)

    def of_array(self, array: pa.Array) -> NDArray[np.uint64]:
        """Returns fingerprints (n, 2) of the bytes of a string or binary array."""
        fingerprints = self._of.of_array(array)
        self.made_ms = self._read(array)
        return fingerprints

    def of_columns(self, columns: Sequence[pa.Array]) -> NDArray[np.uint64]:
        """Returns fingerprints (n, 2) of ids that consist of a single column's bytes."""
        if len(columns) != 1:
            raise BadRequest(
                f"ids of {len(columns)} columns do not carry their time, and `id_time` of this namespace says that ids "
                "do; nothing was written"
            )
        return self.of_array(columns[0])
