"""The console: each notification as plain text on a stream, for trials and for containers' logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.alerts.messages.notification import Sent, SinkError
from rebalance_monitor.alerts.render import plain

if TYPE_CHECKING:
    from typing import TextIO

    from rebalance_monitor.alerts.messages.notification import Notification


class ConsoleSink:
    """Writes to `stream`; what its encoding lacks is written as an escape."""

    kind = "console"
    resend_ms = None

    def __init__(self, name: str, stream: TextIO) -> None:
        self.name = name
        self._stream = stream

    def send(self, notification: Notification, now_ms: int) -> Sent:
        """Write the phase and the message, followed by an empty line."""
        del now_ms
        said = f"({notification.phase.value}) {plain.render(notification.message)}\n"
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        try:
            self._stream.write(said.encode(encoding, "backslashreplace").decode(encoding))
            self._stream.flush()
        except (OSError, ValueError) as error:
            raise SinkError(f"the console is gone: {type(error).__name__}", permanent=True) from None
        return Sent()

    def close(self) -> None:
        """Leave the stream to its owner."""
