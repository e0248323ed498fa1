"""Says what the fields of entries are, for `codec`: a Python type, and the name of its bytes."""

from typing import Annotated

U8 = Annotated[int, "u8"]
U32 = Annotated[int, "u32"]
U64 = Annotated[int, "u64"]
B16 = Annotated[bytes, "b16"]
Blob = Annotated[bytes, "blob"]
Text = Annotated[str, "text"]
Opt = Annotated[bytes | None, "opt"]
Blobs = Annotated[tuple[bytes, ...], "blobs"]
