"""The versioned state codec, checkpoint compatibility and the ledger."""
