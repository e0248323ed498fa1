"""Valid bytes, damaged: bits flipped, numbers set to extremes, pieces removed, doubled, inserted, swapped for
others."""

from collections.abc import Sequence

from hypothesis import strategies as st

# Extreme values of lengths and counts.
EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 2**63 - 1, 2**64 - 1)
STEPS_MAX = 6


@st.composite
def damaged(draw: st.DrawFn, samples: Sequence[bytes]) -> bytes:
    """Draws one of the samples with a few damages; sometimes none, or bytes that are not a sample at all."""
    if draw(st.integers(0, 19)) == 0:
        return draw(st.binary(max_size=256))
    data = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(0, STEPS_MAX))):
        data = _step(draw, data, samples)
    return data


def _step(draw: st.DrawFn, data: bytes, samples: Sequence[bytes]) -> bytes:
    at = draw(st.integers(0, max(0, len(data) - 1)))
    end = min(len(data), at + draw(st.sampled_from((1, 2, 4, 8, 16, 64, 1 << 20))))
    match draw(st.sampled_from(("bit", "edge", "cut", "double", "put", "other", "end"))):
        case "bit" if data:
            return data[:at] + bytes([data[at] ^ 1 << draw(st.integers(0, 7))]) + data[at + 1 :]
        case "edge":
            size, order = draw(st.sampled_from((1, 2, 4, 8))), draw(st.sampled_from(("little", "big")))
            number = draw(st.sampled_from(EDGES)) & (1 << 8 * size) - 1
            return data[:at] + number.to_bytes(size, "little" if order == "little" else "big") + data[at + size :]
        case "cut":
            return data[:at] + data[end:]
        case "double":
            return data[:end] + data[at:end] + data[end:]
        case "put":
            return data[:at] + draw(st.binary(max_size=16)) + data[at:]
        case "other":
            other = draw(st.sampled_from(samples))
            return data[:at] + other[at : at + 64] + data[end:]
        case _:
            return data[:at]
