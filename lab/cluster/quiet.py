"""librdkafka clients that keep lost connections to themselves: in a lab brokers come and go on purpose."""

from __future__ import annotations


class _Dropped:
    """A logger that drops every line."""

    def log(self, *_: object) -> None:
        """Drop it: a broker that is not up yet, or no longer, is no news here."""


def quiet(bootstrap: str) -> dict[str, object]:
    """Give the properties of a client of the lab's own that logs nothing."""
    return {"bootstrap.servers": bootstrap, "logger": _Dropped()}
