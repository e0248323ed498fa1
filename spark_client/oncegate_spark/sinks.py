"""Short import path of `oncegate_spark.spark.sinks`, which options of running jobs contain."""

from oncegate_spark.spark.sinks import SUFFIX, Deliver, FileSink, Sink, SinkContext, files, load, read_files

__all__ = ["SUFFIX", "Deliver", "FileSink", "Sink", "SinkContext", "files", "load", "read_files"]
