"""Says what the fields of entries are, for `codec`: a Python type, and the name of its bytes.

A tagged field is one that an entry may leave out: its default says what is meant then. `Annotated[str, "text",
Tag(1)] = ""`; they stand behind the others, in rising order.
"""

from typing import Annotated, NamedTuple

# From here on a tag informs and changes nothing: a reader that does not know it goes on, as with a PNG's ancillary
# chunks. Below, it changes what the entry means, and who does not know it has to refuse the entry.
INFORMS = 128


class Tag(NamedTuple):
    """Numbers a tagged field among those of its kind, 0 to 255; a number is never given twice. From `INFORMS` on it
    only informs."""

    number: int


U8 = Annotated[int, "u8"]
U32 = Annotated[int, "u32"]
U64 = Annotated[int, "u64"]
B16 = Annotated[bytes, "b16"]
Blob = Annotated[bytes, "blob"]
Text = Annotated[str, "text"]
Opt = Annotated[bytes | None, "opt"]
BlobTuple = Annotated[tuple[bytes, ...], "blobs"]
