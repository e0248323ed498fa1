"""Types of entry fields, for `codec`: a Python type annotated with the name of its encoding.

An entry may omit a tagged field: `Annotated[str, "text", Tag(1)] = ""`. The default is its value if it is absent.
Tagged fields follow the others, in rising order.
"""

from typing import Annotated, NamedTuple

# Tags from here on only inform: a reader that does not know one ignores it, as with a PNG's ancillary chunks. A lower
# tag changes the meaning of the entry, so a reader that does not know it must reject the entry.
INFORMS = 128


class Tag(NamedTuple):
    """Number of a tagged field among those of its kind, 0 to 255; never reused. Tags from `INFORMS` on only inform."""

    number: int


U8 = Annotated[int, "u8"]
U32 = Annotated[int, "u32"]
U64 = Annotated[int, "u64"]
B16 = Annotated[bytes, "b16"]
Blob = Annotated[bytes, "blob"]
Text = Annotated[str, "text"]
Opt = Annotated[bytes | None, "opt"]
BlobTuple = Annotated[tuple[bytes, ...], "blobs"]
