"""What the page needs of alerts: the team of a group, silences, and the receivers that were notified.

The dashboard does not import alerts: the engine hands in what does it (engine/outputs/page_alerting.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rebalance_monitor.config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.dashboard.web.views.alerting_shapes import NotifiedRow, SilenceRow, SilenceWanted


class Alerting(Protocol):
    """Blocks for the disk or the network; raises OSError where they cannot be used.

    teams: pattern of group names -> team. is_on: whether there are receivers. refused: why no silence can be
    added from the page, "" if one can.
    """

    teams: Mapping[str, str]
    is_on: bool
    refused: str

    def silences(self, about: Finding | None = None) -> Sequence[SilenceRow]:
        """Return the silences that have not ended (of `about`: that cover it), the first to end first."""

    def add(self, wanted: SilenceWanted) -> SilenceRow:
        """Add a silence from now on. Raises ConfigError for one that cannot be meant."""

    def expire(self, identity: str) -> SilenceRow:
        """End a silence now. Raises ConfigError where there is none of this id."""

    def notified(self, identities: Collection[str], limit: int) -> Sequence[NotifiedRow]:
        """Return the notifications about incidents or findings of these ids, the newest first."""


class NoAlerting:
    """Of a monitor without receivers, or of tables and captures."""

    teams: Mapping[str, str] = {}
    is_on = False
    refused = "this monitor has no receivers: there is nothing to silence"

    def silences(self, about: Finding | None = None) -> Sequence[SilenceRow]:  # noqa: ARG002 - of none
        """Return none."""
        return ()

    def add(self, wanted: SilenceWanted) -> SilenceRow:  # noqa: ARG002 - whatever it is
        """Refuse. Raises ConfigError."""
        raise ConfigError(self.refused)

    def expire(self, identity: str) -> SilenceRow:
        """Refuse. Raises ConfigError."""
        raise ConfigError(f"there is no open silence {identity!r}")

    def notified(self, identities: Collection[str], limit: int) -> Sequence[NotifiedRow]:  # noqa: ARG002 - of none
        """Return none."""
        return ()
