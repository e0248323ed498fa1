"""Counts the duplicates in rows that are there already, without a gateway, and shows them."""

from oncegate_spark.spark.audit.count import audit
from oncegate_spark.spark.audit.report import Audit

__all__ = ["Audit", "audit"]
