"""For tests of this program and of whatever is built on it: a real gateway, a clock to set, the ledgers' suite."""

from oncegate.testing.clock import FakeClock, TurnedLoop
from oncegate.testing.ledger_checks import check_ledger
from oncegate.testing.ledger_places import LedgersUnderTest
from oncegate.testing.local import LocalGateway

__all__ = ["FakeClock", "LedgersUnderTest", "LocalGateway", "TurnedLoop", "check_ledger"]
