"""Generated from the service's table of verdicts (service/oncegate/core/verdicts.py). Do not edit."""

# wire byte -> (verdict, takeover, own, number field, may be written)
BY_BYTE: dict[int, tuple[str, bool, bool, str | None, bool]] = {
    1: ("GRANTED", False, False, None, True),
    17: ("GRANTED", True, False, None, True),
    2: ("DUPLICATE", False, False, None, False),
    34: ("DUPLICATE", False, True, None, False),
    3: ("SAME", False, False, "of_index", False),
    67: ("SAME", False, False, "of_call", False),
    4: ("BUSY", False, False, "lease_left_ms", False),
}
