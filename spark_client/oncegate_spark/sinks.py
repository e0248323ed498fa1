"""The sinks of `oncegate_spark.spark.sinks` under a shorter name, which the options of jobs hold."""

from oncegate_spark.spark.sinks import SUFFIX, Deliver, FileSink, Sink, SinkContext, files, load, read_files

__all__ = ["SUFFIX", "Deliver", "FileSink", "Sink", "SinkContext", "files", "load", "read_files"]
