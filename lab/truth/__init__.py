"""The truth: events from the brokers' logs, and the facts that follow from them."""
