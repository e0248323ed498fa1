"""Writes rows into users' own Kafka topics: Arrow columns as Spark's Kafka sink takes them become record batches.

`contract` reads the columns, `partitions` says where each row goes, `shares` gives each partition its records,
`marks` makes the headers that a reader checks, `compression` compresses batches, `spool` keeps rows of stages on the
owner's disk, and `writer` streams them into one transaction.
"""
