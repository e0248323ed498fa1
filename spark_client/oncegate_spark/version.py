"""Version of this package, and its User-Agent."""

import sys

__version__ = "1.0.0rc1"


def user_agent() -> str:
    """Returns the User-Agent header, which distinguishes programs that run Spark."""
    return f"oncegate-{'spark' if 'pyspark' in sys.modules else 'python'}/{__version__}"
