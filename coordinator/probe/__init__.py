"""The driver's view of the probe: samples of the brokers' answers, and what is read off them."""
