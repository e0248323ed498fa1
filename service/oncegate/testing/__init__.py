"""Tools for tests of this program and of programs that use it:
a real gateway, a manual clock, the ledger conformance suite.
"""

from oncegate.testing.clock import FakeClock, TurnedLoop
from oncegate.testing.ledger_checks import check_ledger
from oncegate.testing.ledger_places import LedgersUnderTest
from oncegate.testing.local import LocalGateway

__all__ = ["FakeClock", "LedgersUnderTest", "LocalGateway", "TurnedLoop", "check_ledger"]
