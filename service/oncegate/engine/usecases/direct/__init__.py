"""Answers clients that write rows into Kafka themselves: opens their lanes, and tells what of a lane is written."""
