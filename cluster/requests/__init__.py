"""Answers of brokers as values: topology, offsets, leader epochs; and why one is missing."""
