"""Compares on Spark what was to be written with the ledger and with what is there."""

from oncegate_spark.spark.verify.compare import verify
from oncegate_spark.spark.verify.report import KINDS, Verified

__all__ = ["KINDS", "Verified", "verify"]
