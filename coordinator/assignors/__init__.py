"""Kafka's assignors as pure functions: what each would hand out to the members of a group.

`model` holds the data, one module each assignor, `table` all of them by protocol name, `compare` what an
assignment is worth: its spread and the moves it costs.
"""
