"""The shadow coordinator: typed records and `now` in, group state and findings out.

Pure: no Spark, no I/O, no clock, no logging.
"""
