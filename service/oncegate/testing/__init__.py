"""For tests of this program and of whatever is built on it: a clock to set, the ledgers' conformance suite."""

from oncegate.testing.clock import FakeClock
from oncegate.testing.ledger_checks import check_ledger
from oncegate.testing.ledger_places import Place

__all__ = ["FakeClock", "Place", "check_ledger"]
