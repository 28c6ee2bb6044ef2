"""`alerts`: preview messages and routes, send a test alert, silence alerts."""
