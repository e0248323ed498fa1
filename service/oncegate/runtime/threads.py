"""How the threads of the serving process take turns at the interpreter."""

import sys

# A thread that wants the interpreter asks for it after this long; Python's own value is five times as much. The loop
# wants it again after each call of the system, so behind a thread that decodes a body it would stand for 200 ms.
SWITCH_INTERVAL_S = 0.001


def share_often() -> None:
    """Lets a thread that waits for the interpreter have it after a millisecond, so that no request stalls the loop."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
