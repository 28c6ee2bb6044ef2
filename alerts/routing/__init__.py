"""Labels, matchers, the routing tree and time intervals."""
