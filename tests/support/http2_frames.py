"""An HTTP/2 peer that breaks the rules: it sends raw frames on its own socket (RFC 9113)."""

import socket
import struct
from types import TracebackType
from typing import Self

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, CONTINUATION = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7, 0x9
END_STREAM, END_HEADERS = 0x1, 0x4
CANCEL, ENHANCE_YOUR_CALM = 0x8, 0xB
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD = 9


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name: str, value: str) -> bytes:
    """Encodes a header field as a literal that is in no table (RFC 7541, 6.2.2)."""
    parts = [one.encode() for one in (name, value)]
    return b"\x00" + b"".join(_length(len(one)) + one for one in parts)


def _length(count: int) -> bytes:
    if count < 127:
        return bytes([count])
    rest, found = count - 127, [127]
    while rest >= 128:
        found.append(rest % 128 + 128)
        rest //= 128
    return bytes([*found, rest])


def call(path: str) -> bytes:
    """Returns the header fields that begin a gRPC call."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "localhost",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    return b"".join(literal(name, value) for name, value in fields.items())


class Peer:
    """A connection. Only `goaway` reads from it."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.send(_PREFACE + frame(SETTINGS, 0, 0))

    def send(self, raw: bytes) -> bool:
        """Sends all bytes. Returns False if the server has closed the connection."""
        try:
            self._socket.sendall(raw)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def goaway(self) -> int | None:
        """Reads until the connection ends. Returns the error code of its GOAWAY, or None if there was none."""
        left, code = b"", None
        while True:
            try:
                part = self._socket.recv(1 << 16)
            except ConnectionResetError:
                return code
            if not part:
                return code
            left += part
            while len(left) >= _HEAD and len(left) >= _HEAD + (size := int.from_bytes(left[:3], "big")):
                if left[3] == GOAWAY:
                    code = int.from_bytes(left[_HEAD + 4 : _HEAD + 8], "big")
                left = left[_HEAD + size :]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()
