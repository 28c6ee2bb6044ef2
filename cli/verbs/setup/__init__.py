"""Before a job starts: check its configuration and what it needs."""
