"""Writes rows into users' own Kafka topics: Arrow columns as Spark's Kafka sink takes them become record batches.

`contract` reads the columns, `partitions` says where each row goes, `shares` gives each partition its records,
`marks` makes the headers that a reader checks, `stream` makes batches of rows, piece by piece, and `user_topics` knows
the topics.
"""
