"""What keeps secrets out of logs, and names out of places that take only plain words.

The client libraries log addresses and headers of their calls. For a webhook the address is the secret, so
their loggers are silenced here, not left to the level that a user chooses for the monitor itself.
"""

from __future__ import annotations

import logging
from hashlib import sha256

SILENT = logging.getLogger("rebalance_monitor.alerts.sinks.library")
"""A logger that says nothing, for clients that take one."""
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False
SILENT.setLevel(logging.CRITICAL + 1)

for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)


def short(key: str) -> str:
    """Return 32 hex digits for a key of any length and letters: safe in headers, ids and metadata."""
    return sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
