"""Converts rows in the Arrow columns of Spark's Kafka sink into record batches for users' own Kafka topics.

`contract` reads the columns. `partitions` chooses each row's partition and splits the rows. `marks` makes the headers
that readers verify. `stream` encodes rows piece by piece. `user_topics` checks the topics.
"""
