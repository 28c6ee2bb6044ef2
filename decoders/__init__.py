"""Bytes of a `__consumer_offsets` record to a typed record, or a typed failure.

Pure Python, numpy and pyarrow: no Spark, no Kafka client, no clock.
"""
