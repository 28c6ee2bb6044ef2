"""Which receivers are notified of which alerts: receivers, the route tree, inhibition and time intervals.

The keys under `route`, `inhibit_rules` and `time_intervals` are Alertmanager's own with its meaning, so these
sections can be moved between the two. Matchers and names are checked where they are used
(`alerts/setup/setup.py`): this model knows their form only.
"""

from collections.abc import Mapping
from typing import Self

from pydantic import ConfigDict, Field, model_validator

from rebalance_monitor.config.detection import Section, Severity, Share
from rebalance_monitor.config.durations import Duration, Lasting
from rebalance_monitor.config.receivers import Receiver


class Route(Section):
    """A node of the route tree; what is left out is inherited from the node above."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    receiver: str | None = Field(default=None, description="Who is notified; the top route must name one.")
    matchers: tuple[str, ...] = Field(
        default=(), description='Which alerts: `severity="critical"`, `group=~"orders-.*"`; all must match.'
    )
    group_by: tuple[str, ...] | None = Field(
        default=None,
        description="Labels that alerts of one message share; `[...]` keeps every alert apart."
        " At the top: cluster, group, scope.",
    )
    group_wait: Duration | None = Field(
        default=None, description="Wait for more alerts of a new group. At the top: 10s."
    )
    group_interval: Duration | None = Field(
        default=None, description="Time until news of a group notifies. At the top: 1m."
    )
    repeat_interval: Duration | None = Field(
        default=None, description="Time until what still fires notifies again. At the top: 4h."
    )
    goes_on: bool = Field(
        default=False, alias="continue", description="Whether later siblings are tried too."
    )
    mute_time_intervals: tuple[str, ...] = Field(
        default=(), description="No notification while one of these is active."
    )
    active_time_intervals: tuple[str, ...] = Field(
        default=(), description="Notifications only while one of these is active."
    )
    routes: tuple["Route", ...] = Field(
        default=(), description="Child routes; the first that matches takes the alert."
    )

    @model_validator(mode="before")
    @classmethod
    def _own_word(cls, raw: object) -> object:
        """Let `continue` win over the default, which pydantic-settings gives by the field's name."""
        if not isinstance(raw, Mapping) or "continue" not in raw:
            return raw
        return {key: value for key, value in raw.items() if key != "goes_on"}


class InhibitRule(Section):
    """While a source alert fires, target alerts that share the labels `equal` with it do not notify."""

    source_matchers: tuple[str, ...] = Field(default=(), description="Which alerts silence others.")
    target_matchers: tuple[str, ...] = Field(default=(), description="Which alerts are silenced.")
    equal: tuple[str, ...] = Field(default=(), description="Labels that both must share.")


class TimeRange(Section):
    """Minutes of a day."""

    start_time: str = Field(description="`HH:MM`, included.")
    end_time: str = Field(description="`HH:MM`, not included; `24:00` is the day's end.")


class TimeInterval(Section):
    """Holds where every field that is set has a range that holds."""

    times: tuple[TimeRange, ...] = Field(default=(), description="Times of day.")
    weekdays: tuple[str, ...] = Field(default=(), description="`monday:friday`, `sunday`.")
    days_of_month: tuple[str, ...] = Field(default=(), description="`1:5`, `-3:-1` counts from the end.")
    months: tuple[str, ...] = Field(default=(), description="`january:march`, `5:8`.")
    years: tuple[str, ...] = Field(default=(), description="`2026:2027`.")
    location: str = Field(default="UTC", description="IANA time zone.")


class NamedIntervals(Section):
    """A name for times: it holds where one of its intervals does."""

    name: str = Field(min_length=1, description="The name that routes use.")
    time_intervals: tuple[TimeInterval, ...] = Field(default=(), description="Its intervals.")


class Links(Section):
    """Links in messages."""

    runbooks: str = Field(
        default="",
        description="Address of your own runbooks page; `#<kind>` is appended. Empty: the live page's own, "
        "below `web.url`.",
    )

    @model_validator(mode="after")
    def _addresses(self) -> Self:
        if self.runbooks and not self.runbooks.startswith(("https://", "http://")):
            raise ValueError("`runbooks` must begin with https:// or http://")
        return self


class Watchdog(Section):
    """An alert that always fires: whoever gets it pages when it stays away."""

    to: tuple[str, ...] = Field(
        default=(), description="Names of receivers; no route, silence or interval keeps it from them."
    )
    interval: Lasting = Field(default=Duration("1m"), description="How often it is sent.")
    silent_after: Lasting = Field(
        default=Duration("2m"),
        description="It stays away when no batch has been finished for this long; at least twice `trigger`.",
    )


class Alerts(Section):
    """Which receivers are notified of which alerts, when. Without `receivers` no alert is sent."""

    receivers: tuple[Receiver, ...] = Field(default=(), description="Who can be notified, and how.")
    route: Route = Field(default=Route(), description="The top of the route tree.")
    inhibit_rules: tuple[InhibitRule, ...] = Field(
        default=(), description="Which alerts silence which; storms and roll-ups need no rule."
    )
    time_intervals: tuple[NamedIntervals, ...] = Field(
        default=(), description="Named times for `mute_time_intervals` and `active_time_intervals`."
    )
    minimum_severity: Severity = Field(
        default="warning", description="Findings below it never notify, whatever the routes say."
    )
    min_confidence: Share = Field(
        default=0.6, description="Suspected findings below this confidence open no incident."
    )
    hold: Duration = Field(
        default=Duration("5m"),
        description="How long a finding without an end of its own counts as an open incident; "
        "longer than any `group_wait`.",
    )
    templates: dict[str, str] = Field(
        default={}, description="Name -> Jinja2 template, for the bodies of webhooks."
    )
    links: Links = Field(default=Links(), description="Links in messages.")
    watchdog: Watchdog = Field(default=Watchdog(), description="An alert whose absence pages.")
    sink_failing_after: Duration = Field(
        default=Duration("5m"), description="A receiver that fails for this long is an alert to the others."
    )

    @property
    def is_on(self) -> bool:
        """Whether anybody is to be notified."""
        return bool(self.receivers)
