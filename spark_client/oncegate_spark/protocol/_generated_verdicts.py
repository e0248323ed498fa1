"""The verdicts as bytes. Generated from oncegate/core/verdicts.py by `make generate`; do not edit."""

VERDICT_MASK = 0x0F
FLAG_TAKEOVER = 0x10
FLAG_OWN = 0x20
FLAG_OF_CALL = 0x40
FLAG_UNCHECKED = 0x80

# byte: (verdict, takeover, own, its number's name, unchecked, may write)
BY_BYTE: dict[int, tuple[str, bool, bool, str | None, bool, bool]] = {
    0x01: ("GRANTED", False, False, None, False, True),
    0x02: ("DUPLICATE", False, False, None, False, False),
    0x03: ("SAME", False, False, "of_index", False, False),
    0x04: ("BUSY", False, False, "lease_left_ms", False, False),
    0x05: ("STALE", False, False, None, False, False),
    0x06: ("CONFLICT", False, False, None, False, False),
    0x07: ("FREE", False, False, None, False, False),
    0x08: ("IN_DOUBT", False, False, None, False, False),
    0x11: ("GRANTED", True, False, None, False, True),
    0x17: ("FREE", True, False, None, False, False),
    0x22: ("DUPLICATE", False, True, None, False, False),
    0x43: ("SAME", False, False, "of_call", False, False),
    0x81: ("GRANTED", False, False, None, True, True),
}
