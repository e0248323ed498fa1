"""Stores rows on this machine's disk until the gateway is back, for clients with `on_down="spill"`."""

from oncegate_spark.spill.entry import SpillEntry
from oncegate_spark.spill.folder import Spill

__all__ = ["Spill", "SpillEntry"]
