"""The version of this package, and the name by which its requests go."""

import sys

__version__ = "1.0.0rc1"


def user_agent() -> str:
    """Returns the header User-Agent: one product for programs that run Spark, another for those that do not."""
    return f"oncegate-{'spark' if 'pyspark' in sys.modules else 'python'}/{__version__}"
