"""The monitor's own health: lag, clock skew, notices, and the findings made of them."""
