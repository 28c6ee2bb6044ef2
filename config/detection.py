"""The thresholds of detection, with the coordinator's own defaults and its own names, without `_ms`.

Sizes are bytes, shares fractions of one. Patterns are shell patterns over group names
(`orders-*`): one team's noisy group does not need another monitor.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rebalance_monitor.config.durations import Duration, Lasting
from rebalance_monitor.config.texts import require_plain

Severity = Literal["info", "warning", "critical"]
Share = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """A part of the configuration: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)

    @model_validator(mode="after")
    def _plain(self) -> Self:
        require_plain(self)
        return self


class GroupRule(Section):
    """Team and thresholds of the groups that `pattern` matches; what is left out, a later rule or all say."""

    pattern: str = Field(min_length=1, description="Which groups.")
    team: str | None = Field(
        default=None, min_length=1, description="The team of these groups: the label `team`."
    )
    storm_threshold: int | None = Field(default=None, ge=2)
    storm_window: Lasting | None = None
    storm_quiet: Lasting | None = None
    storm_sightings_share: Share | None = None
    storm_sightings_window: Lasting | None = None
    stuck_after: Lasting | None = None
    slow_sync: Lasting | None = None
    session_timeout: Lasting | None = None
    max_poll_interval: Lasting | None = None
    expected_churn: bool | None = None


def _listed(section: type[Section]) -> str:
    return ", ".join(f"`{name}`" for name in section.model_fields if name != "pattern")


class SeverityOverride(Section):
    """The severity of one kind of finding, for the groups that `pattern` matches."""

    kind: str = Field(min_length=1, description="A kind of finding.")
    severity: Severity = Field(description="The severity of its findings.")
    pattern: str = Field(default="*", min_length=1, description="Which groups.")


class Detection(Section):
    """When silence, repetition and size become findings."""

    grace: Duration = Field(
        default=Duration("1s500ms"), description="Time from a deadline until it counts as passed."
    )
    attribution_confidence: Share = Field(
        default=0.8, description="Confidence from which one member gets a finding of its own."
    )
    storm_threshold: int = Field(
        default=5,
        ge=2,
        description="Rebalances in `storm_window` that make a storm; the page `storm` says which count.",
    )
    storm_window: Lasting = Field(default=Duration("5m"), description="The storm rule's sliding window.")
    storm_quiet: Lasting = Field(
        default=Duration("5m"),
        description="Quiet time after which a storm, or an incident of many groups, is over.",
    )
    storm_sightings_share: Share = Field(
        default=0.5,
        description="Share of probe samples in a rebalance from which a group storms.",
    )
    storm_sightings_window: Lasting = Field(default=Duration("2m"), description="The window of that share.")
    stuck_after: Lasting | None = Field(
        default=None,
        description="How long one unbroken rebalance may last until it is stuck. Empty: half of the "
        "group's own rebalance timeout, 20 s to 1 min.",
    )
    slow_sync: Lasting = Field(
        default=Duration("5s"), description="A longer wait for the assignment is slow."
    )
    failed_repeated: int = Field(
        default=2, ge=1, description="Failed rebalances within the storm window that warn."
    )
    roll_up_groups: int = Field(
        default=5, ge=2, description="Groups hit at once from which on one finding stands for all."
    )
    roll_up_window: Duration = Field(default=Duration("10s"), description="The time that counts as at once.")
    unreadable_threshold: int = Field(
        default=10, ge=1, description="Unreadable records within the window that raise an alarm."
    )
    unreadable_window: Lasting = Field(
        default=Duration("1m"), description="The window of unreadable records."
    )
    behind_after: Lasting = Field(
        default=Duration("1m"), description="Lag of the job from which `monitor_degraded` reports it."
    )
    offsets_retention: Duration = Field(
        default=Duration("7d"), description="The brokers' offsets.retention.minutes."
    )
    offsets_expiring: Duration = Field(
        default=Duration("1d"), description="Time before the expiry from which `offsets_expiring` is open."
    )
    max_message_bytes: int = Field(
        default=1_048_588, ge=1, description="The offsets topic's max.message.bytes; large groups outgrow it."
    )
    group_too_large_share: Share = Field(
        default=0.8, description="Share of max_message_bytes from which a group's record is too large."
    )
    session_timeout_848: Lasting = Field(
        default=Duration("45s"),
        description="group.consumer.session.timeout.ms; no record holds it (KIP-848).",
    )
    session_timeout_share: Lasting | None = Field(
        default=None, description="group.share.session.timeout.ms. Empty: that of KIP-848 groups."
    )
    session_timeout_streams: Lasting | None = Field(
        default=None, description="group.streams.session.timeout.ms. Empty: that of KIP-848 groups."
    )
    max_poll_interval: Lasting | None = Field(
        default=None,
        description="max.poll.interval of clients that do not send it to the broker (aiokafka). Empty: a "
        "member that commits by hand is not reported before its client's default of 300 s.",
    )
    lag_window: Lasting = Field(
        default=Duration("1m"),
        description="How long lag must grow without progress before `consumption_stalled` or "
        "`consumption_stopped`; ten of the member's commit intervals, where that is longer.",
    )
    falling_behind: Lasting = Field(
        default=Duration("10m"), description="How long lag must rise without going down once."
    )
    falling_behind_warning: Lasting | None = Field(
        default=None,
        description="Age of the oldest waiting record from which `falling_behind` warns. Empty: never.",
    )
    records_expiring: Duration = Field(
        default=Duration("4h"),
        description="Time before retention removes unread records from which `records_expiring` warns.",
    )
    expected_pause: tuple[str, ...] = Field(
        default=(),
        description="Patterns of groups whose partitions stand still on purpose now and then (pause(), sink "
        "connectors): no `consumption_stalled` and no `consumption_stopped`.",
    )
    always_on: tuple[str, ...] = Field(
        default=(), description="Patterns of groups that must never be empty: `group_empty` is critical."
    )
    severity_overrides: tuple[SeverityOverride, ...] = Field(
        default=(),
        description="Other severities: a list of `kind`, `severity` and `pattern` (default `*`); the first "
        "match wins.",
    )
    groups: tuple[GroupRule, ...] = Field(
        default=(),
        description="Team and thresholds of the groups of a `pattern`: a list with any of "
        f"{_listed(GroupRule)}. For each key the first rule wins that matches and sets it. "
        "`session_timeout`: KIP-848, share and streams groups only, whose records do not contain it. "
        "`expected_churn`: joins and leaves are no storm, claimed expiries are.",
    )
    summary_interval: Duration = Field(
        default=Duration("5s"), description="A group's summary is written at most once in this time."
    )
    summary_members: int = Field(default=50, ge=0, description="Members that a summary names.")

    @property
    def teams(self) -> dict[str, str]:
        """Pattern -> team of the rules that name one; the first that matches a group wins."""
        named: dict[str, str] = {}
        for rule in self.groups:
            if rule.team is not None:
                named.setdefault(rule.pattern, rule.team)
        return named
