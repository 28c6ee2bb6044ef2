"""What reaches the sinks, and in which words, on a clock that the test moves; sinks are scripted answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from rebalance_monitor.alerts.decision import Reason
from rebalance_monitor.alerts.dispatch import Dispatch
from rebalance_monitor.alerts.memory_file import MemoryFile, MemoryFileError
from rebalance_monitor.alerts.pacing import LONGEST_PAUSE_MS, Pace
from rebalance_monitor.alerts.plan import Memory
from rebalance_monitor.alerts.sinks.alertmanager import AlertmanagerSink
from rebalance_monitor.alerts.sinks.base import Phase, SinkError
from rebalance_monitor.alerts.ways import plan_of, sinks_of
from rebalance_monitor.config.alerts import Alerts
from rebalance_monitor.config.model import Settings
from rebalance_monitor.coordinator.causes import Cause
from rebalance_monitor.coordinator.findings import CauseEntry
from rebalance_monitor.coordinator.kinds import Kind, Scope, Severity
from tests.alerts.findings import AT, MEMBER, finding

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rebalance_monitor.alerts.labels import Labels
    from rebalance_monitor.alerts.plan import Outgoing
    from rebalance_monitor.coordinator.findings import Finding

SECOND, MINUTE = 1_000, 60_000
SLACK = {"token": "xoxb-none", "channel": "C0123ABCD"}
BASE: dict[str, Any] = {
    "receivers": [{"name": "sre", "slack": SLACK}, {"name": "pager", "pagerduty": {"routing_key": "r"}}],
    "route": {"receiver": "sre", "routes": [{"matchers": ['severity="critical"'], "receiver": "pager"}]},
}
PAGER = "pager/pagerduty"
ONLY_SLACK: dict[str, Any] = {**BASE, "route": {"receiver": "sre"}}


@dataclass
class Play:
    """Runs a dispatcher by simulated seconds.

    `broken`: way -> the error that its sink answers with. `refused`: a group that no service takes.
    """

    section: dict[str, Any] = field(default_factory=lambda: ONLY_SLACK)
    now: int = AT
    broken: dict[str, SinkError] = field(default_factory=dict)
    told: list[tuple[int, Outgoing]] = field(default_factory=list)
    tried: int = 0
    silenced: Callable[[Labels, int], bool] = lambda _labels, _now: False
    memory: Memory = field(default_factory=Memory)
    refused: str = ""
    cluster: str = "prod"

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begin, or begin again with what is in the memory."""
        settings = Settings(alerts=Alerts(**self.section))
        plan = plan_of(settings, self.cluster, lambda labels, now: self.silenced(labels, now))  # noqa: PLW0108 - it is set later
        self.dispatch = Dispatch(plan, self.memory, lambda: 0.5, self.now)

    def happens(self, *findings: Finding) -> None:
        known = [replace(one, at=self.now, detected_at=self.now) for one in findings]
        self.dispatch.take(known, self.now)
        self.dispatch.watchdog.batch_at = self.now

    def run(self, ms: int, step: int = SECOND) -> list[tuple[str, Phase, Reason]]:
        """Let time pass; return what was told: receiver, phase, reason."""
        fresh = []
        for now in range(self.now, self.now + ms + 1, step):
            self.now = now
            self.dispatch.look(now)
            while outgoing := self.dispatch.ready(now):
                fresh += [one for one in outgoing if self._answer(one)]
        self.told += [(self.now, one) for one in fresh]
        return [(one.way[0], one.notification.phase, one.due.reason) for one in fresh]

    def _answer(self, outgoing: Outgoing) -> bool:
        self.tried += 1
        error = self.broken.get(outgoing.way[0])
        groups = {alert.labels.get("group") for alert in outgoing.notification.alerts}
        if self.refused and self.refused in groups:
            error = SinkError("the service answered 413", permanent=True)
        if error is None:
            self.dispatch.arrived(outgoing, {"ts": outgoing.notification.thread}, self.now)
        else:
            self.dispatch.failed(outgoing, error, self.now)
        return error is None

    def heard(self, way: str) -> list[Outgoing]:
        """Return what this way out was told."""
        return [one for _, one in self.told if one.way[0] == way]

    @property
    def last(self) -> Outgoing:
        return self.told[-1][1]


def storm(phase: str = "opened", group: str = "orders", **changes: Any) -> Finding:  # noqa: ANN401
    return finding(
        Kind.STORM, phase=phase, group=group, incident=f"i-{group}", id=f"{phase}-{group}", **changes
    )


def roll_up(kind: Kind, groups: tuple[str, ...], total: int | None = None) -> Finding:
    cause = CauseEntry(Cause.COORDINATOR_MOVED, 0.8, "together")
    return finding(
        kind,
        scope=Scope.CLUSTER,
        group=None,
        groups=groups,
        groups_total=total or len(groups),
        evidence="suspected",
        confidence=0.8,
        phase=None,
        causes=(cause,),
    )


def test_a_thread_opens_gains_what_is_new_and_closes_with_its_tally() -> None:
    play = Play()
    play.happens(storm())
    assert play.run(20 * SECOND) == [("sre/slack", Phase.OPENED, Reason.FIRST)]
    assert not play.last.notification.maybe_sent
    thread = play.last.notification.thread
    for number in range(8):
        play.happens(finding(Kind.REBALANCE, id=f"r{number}"))
    play.happens(storm("updated"))
    assert play.run(2 * MINUTE) == [("sre/slack", Phase.UPDATED, Reason.CHANGED)]
    told = play.last.notification
    assert [one.id for one in told.news] == ["updated-orders"]
    assert told.state == {"ts": thread}
    play.happens(storm("resolved"))
    assert play.run(2 * MINUTE) == [("sre/slack", Phase.RESOLVED, Reason.ALL_RESOLVED)]
    told = play.last.notification
    assert (told.thread, told.tally.rebalances) == (thread, 8)
    assert play.memory.threads == {}
    play.happens(storm())
    play.run(2 * MINUTE)
    assert play.last.notification.phase is Phase.OPENED
    assert play.last.notification.thread != thread


def test_no_receiver_but_a_thread_is_told_of_mere_updates() -> None:
    play = Play(BASE)
    play.happens(storm())
    assert play.run(MINUTE) == [("pager/pagerduty", Phase.OPENED, Reason.FIRST)]
    play.happens(storm("updated"))
    assert play.run(10 * MINUTE) == []


def test_a_sink_that_was_down_for_an_hour_is_told_the_present_only() -> None:
    play = Play(broken={"sre/slack": SinkError("away")})
    play.happens(storm(group="first"))
    play.run(MINUTE)
    for number in range(30):
        play.happens(storm(group=f"g{number}"))
        play.run(MINUTE, 5 * SECOND)
        play.happens(storm("resolved", group=f"g{number}"))
    play.happens(storm(group="last"))
    play.run(30 * MINUTE, 5 * SECOND)
    assert play.tried < 40
    play.broken = {}
    play.run(10 * MINUTE)
    heard = [one.notification for one in play.heard("sre/slack") if "group" in one.notification.labels]
    phases = {told.labels["group"]: told.phase for told in heard}
    assert phases.pop("first") is Phase.OPENED
    assert phases.pop("last") is Phase.OPENED
    # What was over and never tried is not told; only an attempt that may have arrived is brought to its end.
    assert set(phases.values()) <= {Phase.RESOLVED}
    assert len(phases) <= 3


def test_retries_pause_longer_and_longer_and_as_long_as_the_service_asks() -> None:
    pace, now, pauses = Pace(), AT, []
    for _ in range(12):
        pace.fail(SinkError("no"), now, 0.999)
        pauses.append(pace.next_try - now)
        now = pace.next_try
    assert pauses == sorted(pauses)
    assert pauses[0] <= 1_000
    assert pauses[-1] <= LONGEST_PAUSE_MS
    pace.fail(SinkError("slow down", retry_after_s=1_000), now, 0.0)
    assert pace.next_try == now + 1_000_000


def test_a_way_out_is_told_no_faster_than_its_rate() -> None:
    section = {**ONLY_SLACK, "receivers": [{"name": "sre", "slack": {**SLACK, "per_minute": 6}}]}
    play = Play(section)
    play.happens(*[storm(group=f"g{number}") for number in range(40)])
    assert len(play.run(MINUTE)) <= 6 + 6
    assert len(play.run(10 * MINUTE)) >= 40 - 12


def test_an_attempt_that_may_have_arrived_is_sent_again_under_the_same_key() -> None:
    play = Play(broken={"sre/slack": SinkError("cut")})
    play.happens(storm())
    play.run(12 * SECOND)
    first = play.memory.threads[next(iter(play.memory.threads))]
    assert first.uncertain
    play.broken = {}
    play.run(MINUTE)
    told = play.last.notification
    assert told.maybe_sent
    assert told.key == f"{first.id}/opened/0"


def test_what_may_have_arrived_is_brought_to_its_end_even_if_over_by_then() -> None:
    play = Play(broken={"sre/slack": SinkError("cut")})
    play.happens(storm())
    play.run(12 * SECOND)
    play.happens(storm("resolved"))
    play.broken = {}
    assert play.run(5 * MINUTE) == [("sre/slack", Phase.RESOLVED, Reason.ALL_RESOLVED)]
    assert play.last.notification.maybe_sent


def test_what_was_refused_for_good_and_is_over_by_then_is_not_told_at_all() -> None:
    play = Play(broken={"sre/slack": SinkError("the service answered 413", permanent=True)})
    play.happens(storm())
    play.run(12 * SECOND)
    assert play.tried >= 1
    play.happens(storm("resolved"))
    play.broken = {}
    play.run(30 * MINUTE)
    assert [one for one in play.heard("sre/slack") if "group" in one.notification.labels] == []


def test_what_may_have_arrived_is_not_ended_while_some_of_it_fires_unseen() -> None:
    play = Play(broken={"sre/slack": SinkError("cut")})
    play.happens(storm(), finding(Kind.REBALANCE_STUCK, phase="opened", incident="i-stuck", id="stuck"))
    play.run(12 * SECOND)
    play.silenced = lambda _labels, _now: True
    play.happens(storm("resolved"))
    play.broken = {}
    assert play.run(5 * MINUTE) == []
    play.silenced = lambda _labels, _now: False
    assert play.run(5 * MINUTE)[0][:2] == ("sre/slack", Phase.OPENED)


def test_what_outlives_its_thread_under_a_silence_is_told_under_a_key_of_its_own() -> None:
    hook = {"name": "hook", "webhook": {"url": "http://127.0.0.1:1"}}
    play = Play({"receivers": [hook], "route": {"receiver": "hook", "group_by": ["cluster"]}})
    play.happens(storm())
    play.run(MINUTE)
    play.happens(storm(group="other"))
    play.run(2 * MINUTE)
    play.silenced = lambda labels, _now: labels["group"] == "orders"
    play.happens(storm("resolved", group="other"))
    play.run(2 * MINUTE)
    play.silenced = lambda _labels, _now: False
    play.run(2 * MINUTE)
    told = [one.notification for one in play.heard("hook/webhook")]
    assert [one.phase for one in told][-2:] == [Phase.RESOLVED, Phase.OPENED]
    assert len({one.key for one in told}) == len(told)
    assert told[-1].thread != told[0].thread
    assert told[-1].opened_at == told[0].opened_at


def test_a_receiver_that_fails_for_good_is_an_alert_to_the_others() -> None:
    play = Play(ONLY_SLACK, broken={"sre/slack": SinkError("invalid_auth", permanent=True)})
    play.happens(storm())
    told = play.run(2 * MINUTE)
    assert told == [("pager/pagerduty", Phase.OPENED, Reason.FIRST)]
    assert play.last.notification.alerts[0].finding.details == {"cause": "sink_failing", "sink": "sre/slack"}
    assert "invalid_auth" in play.last.notification.alerts[0].finding.causes[0].why
    play.broken = {}
    told = play.run(20 * MINUTE)
    assert ("sre/slack", Phase.OPENED, Reason.FIRST) in told
    assert ("pager/pagerduty", Phase.RESOLVED, Reason.ALL_RESOLVED) in told


def test_a_receiver_that_fails_for_long_is_an_alert_too() -> None:
    play = Play(ONLY_SLACK, broken={"sre/slack": SinkError("503")})
    play.happens(storm())
    assert play.run(5 * MINUTE) == []
    assert play.run(5 * MINUTE) == [("pager/pagerduty", Phase.OPENED, Reason.FIRST)]


@pytest.mark.parametrize("is_over", [True, False])
def test_a_restart_ends_the_alarm_of_a_receiver_that_nothing_waits_for_and_no_other(*, is_over: bool) -> None:
    play = Play(BASE, broken={PAGER: SinkError("the service answered 403", permanent=True)})
    play.happens(storm(severity=Severity.CRITICAL))
    play.run(MINUTE)
    if is_over:
        play.happens(storm("resolved"))
    play.run(30 * MINUTE)
    phases = [one.notification.phase for one in play.heard("sre/slack")]
    assert phases == [Phase.OPENED]
    play.start()
    play.run(10 * MINUTE)
    phases = [one.notification.phase for one in play.heard("sre/slack")]
    assert phases == [Phase.OPENED, Phase.RESOLVED] if is_over else [Phase.OPENED]


def test_incidents_continue_over_a_restart(tmp_path: Path) -> None:
    play, file = Play(), MemoryFile(tmp_path / "memory.jsonl")
    play.happens(storm())
    play.run(20 * SECOND)
    thread = play.last.notification.thread
    file.save(play.memory)
    play.memory = file.load()
    play.start()
    play.happens(storm("updated"))
    play.run(MINUTE)
    play.happens(storm("resolved"))
    play.run(2 * MINUTE)
    assert [one.notification.phase for _, one in play.told] == [Phase.OPENED, Phase.UPDATED, Phase.RESOLVED]
    assert {one.notification.thread for _, one in play.told} == {thread}


def test_history_opens_nothing_and_ends_what_was_open() -> None:
    play = Play()
    play.happens(storm(history=True))
    assert play.run(5 * MINUTE) == []
    play.happens(storm())
    play.run(MINUTE)
    play.happens(storm("resolved", history=True))
    assert play.run(2 * MINUTE) == [("sre/slack", Phase.RESOLVED, Reason.ALL_RESOLVED)]


def test_weak_suspicions_and_light_findings_are_never_told() -> None:
    play = Play()
    play.happens(
        finding(Kind.SESSION_TIMEOUT, evidence="suspected", confidence=0.59),
        finding(Kind.REBALANCE),
        finding(Kind.GROUP_EMPTY, group="other"),
    )
    assert play.run(10 * MINUTE) == []
    play.happens(finding(Kind.SESSION_TIMEOUT, evidence="suspected", confidence=0.6))
    assert play.run(MINUTE) == [("sre/slack", Phase.OPENED, Reason.FIRST)]


def test_a_storm_swallows_what_is_in_it_also_after_its_end() -> None:
    play = Play({**ONLY_SLACK, "route": {"receiver": "sre", "group_by": ["alertname", "group"]}})
    play.happens(storm(), finding(Kind.SESSION_TIMEOUT))
    play.run(MINUTE)
    play.happens(finding(Kind.SESSION_TIMEOUT))
    play.run(MINUTE)
    play.happens(storm("resolved"))
    play.run(10 * MINUTE)
    told = {one.notification.labels["alertname"] for _, one in play.told}
    assert told == {"storm"}


def test_what_was_told_before_the_storm_ends_where_it_was_told() -> None:
    play = Play({**ONLY_SLACK, "route": {"receiver": "sre", "group_by": ["alertname", "group"]}})
    play.happens(finding(Kind.SESSION_TIMEOUT))
    play.run(MINUTE)
    play.happens(storm(), finding(Kind.SESSION_TIMEOUT, id="another"))
    play.run(3 * MINUTE)
    phases = [one.notification.phase for _, one in play.told if "session" in str(one.way)]
    assert phases == [Phase.OPENED]
    play.happens(storm("resolved"))
    play.run(3 * MINUTE)
    phases = [one.notification.phase for _, one in play.told if "session" in str(one.way)]
    assert phases == [Phase.OPENED, Phase.RESOLVED]


def test_a_roll_up_is_told_instead_of_its_groups() -> None:
    play, kind = Play(), Kind.SESSION_TIMEOUT
    groups = tuple(f"g{number}" for number in range(7))
    play.happens(*[finding(kind, group=group) for group in groups], finding(kind, group="elsewhere"))
    play.run(4 * SECOND)
    play.happens(roll_up(kind, groups))
    play.run(3 * MINUTE)
    told = [one.notification.labels.get("group", "cluster") for _, one in play.told]
    assert sorted(told) == ["cluster", "elsewhere"]


def test_a_group_that_must_never_be_empty_pages_beside_a_roll_up() -> None:
    play = Play()
    empty = finding(Kind.GROUP_EMPTY, group="g1", severity=Severity.CRITICAL, incident="e")
    play.happens(empty, roll_up(Kind.SESSION_TIMEOUT, ("g1", "g2")))
    play.run(MINUTE)
    assert "g1" in {one.notification.labels.get("group") for _, one in play.told}


def test_a_rolling_restart_lowers_what_it_explains_before_and_after() -> None:
    play = Play()
    play.happens(finding(Kind.SESSION_TIMEOUT), finding(Kind.SESSION_TIMEOUT, group="other"))
    play.run(3 * SECOND)
    play.happens(finding(Kind.ROLLING_RESTART, details={"window_ms": 4_000}))
    play.happens(finding(Kind.SESSION_TIMEOUT, id="later"))
    play.run(10 * MINUTE)
    assert {one.notification.labels["group"] for _, one in play.told} == {"other"}


def test_a_removed_group_has_no_open_incident() -> None:
    play = Play()
    play.happens(finding(Kind.OFFSETS_EXPIRING, incident="e"))
    play.run(MINUTE)
    play.happens(finding(Kind.GROUP_REMOVED))
    assert play.run(2 * MINUTE) == [("sre/slack", Phase.RESOLVED, Reason.ALL_RESOLVED)]


@pytest.mark.parametrize("kind", [Kind.GROUP_EMPTY, Kind.OFFSETS_EXPIRING])
def test_a_group_with_members_again_is_empty_no_more_even_if_its_state_was_rebuilt(kind: Kind) -> None:
    play = Play()
    play.happens(finding(kind, phase="opened", incident="e", severity=Severity.CRITICAL))
    play.run(MINUTE)
    play.happens(finding(Kind.REBALANCE, history=True))
    assert play.run(2 * MINUTE) == []
    play.happens(finding(Kind.REBALANCE))
    assert play.run(2 * MINUTE) == [("sre/slack", Phase.RESOLVED, Reason.ALL_RESOLVED)]


def expiring(topic: str, phase: str = "opened") -> Finding:
    details: dict[str, str | int | float] = {"topic": topic, "expires_at": AT, "retention_ms": 1}
    return finding(Kind.OFFSETS_EXPIRING, phase=phase, incident=f"e-{topic}", details=details)


def test_offsets_of_a_topic_expire_though_the_group_rebalances_each_to_its_own_end() -> None:
    play = Play()
    play.happens(expiring("t1"), expiring("t2"))
    play.run(MINUTE)
    play.happens(finding(Kind.REBALANCE))
    assert play.run(2 * MINUTE) == []
    play.happens(expiring("t2", "resolved"))
    assert play.run(2 * MINUTE) == [("sre/slack", Phase.UPDATED, Reason.SOME_RESOLVED)]
    firing, over = play.last.notification.alerts
    assert [firing.labels["topic"], over.labels["topic"]] == ["t1", "t2"]
    play.happens(finding(Kind.GROUP_REMOVED))
    assert play.run(2 * MINUTE) == [("sre/slack", Phase.RESOLVED, Reason.ALL_RESOLVED)]


def test_each_silent_member_is_an_alert_of_its_own_and_of_its_own_labels() -> None:
    play = Play()
    for name in ("m1", "m2"):
        silent = replace(MEMBER, member_id=name)
        told = finding(Kind.MEMBER_SILENT, severity=Severity.WARNING, members=(silent,), incident=name)
        play.happens(told)
    play.run(MINUTE)
    labels = [alert.labels for alert in play.last.notification.alerts]
    assert sorted(one["member_id"] for one in labels) == ["m1", "m2"]


def test_a_silence_holds_everything_back_is_acknowledged_and_the_end_closes_the_thread() -> None:
    play = Play()
    play.happens(storm())
    play.run(20 * SECOND)
    play.silenced = lambda labels, _now: labels.get("group") == "orders"
    assert play.run(5 * SECOND) == [("sre/slack", Phase.ACKNOWLEDGED, Reason.SILENCED)]
    play.happens(storm("updated"), storm(group="payments"))
    assert play.run(5 * MINUTE) == [("sre/slack", Phase.OPENED, Reason.FIRST)]
    play.happens(storm("resolved"))
    assert play.run(5 * MINUTE) == [("sre/slack", Phase.RESOLVED, Reason.CLOSED)]
    assert play.last.notification.alerts[0].resolved(play.now)


def test_a_silenced_incident_that_goes_on_is_told_again_when_the_silence_ends() -> None:
    play = Play()
    play.silenced = lambda _labels, _now: True
    play.happens(storm())
    assert play.run(5 * MINUTE) == []
    play.silenced = lambda _labels, _now: False
    assert play.run(2 * MINUTE) == [("sre/slack", Phase.OPENED, Reason.FIRST)]


def test_a_receiver_without_send_resolved_hears_of_no_end() -> None:
    quiet = [{"name": "sre", "slack": {**SLACK, "send_resolved": False}}]
    play = Play({**ONLY_SLACK, "receivers": quiet})
    play.happens(storm())
    play.run(MINUTE)
    play.happens(storm("resolved"))
    assert play.run(10 * MINUTE) == []
    assert play.memory.threads == {}


def test_an_alertmanager_is_told_again_before_it_forgets() -> None:
    manager = {"urls": ["http://127.0.0.1:1"], "resend_interval": "30s"}
    play = Play({"receivers": [{"name": "am", "alertmanager": manager}], "route": {"receiver": "am"}})
    play.happens(storm())
    told = play.run(5 * MINUTE)
    assert told[0] == ("am/alertmanager", Phase.OPENED, Reason.FIRST)
    assert set(told[1:]) == {("am/alertmanager", Phase.REPEATED, Reason.RESEND)}
    assert 8 <= len(told) <= 11


def test_the_watchdog_is_sent_while_batches_are_finished_and_not_a_moment_longer() -> None:
    play = Play({**BASE, "watchdog": {"to": ["pager"], "interval": "1m", "silent_after": "2m"}})
    assert play.run(5 * MINUTE) == []
    for _ in range(5):
        play.happens()
        play.run(MINUTE)
    beats = [one for _, one in play.told if one.due.reason is Reason.WATCHDOG]
    assert {one.way[0] for one in beats} == {"pager/pagerduty"}
    assert [one.notification.phase for one in beats][:2] == [Phase.OPENED, Phase.REPEATED]
    assert 5 <= len(beats) <= 7
    play.run(3 * MINUTE)
    assert play.run(30 * MINUTE) == []


def test_a_way_out_gets_one_notification_at_a_time_and_a_hanging_one_holds_up_no_other() -> None:
    play = Play(BASE)
    play.happens(storm(), finding(Kind.SESSION_TIMEOUT, group="calm"))
    play.now += 15 * SECOND
    play.dispatch.look(play.now)
    assert {one.way[0] for one in play.dispatch.ready(play.now)} == {"sre/slack", "pager/pagerduty"}
    play.happens(storm(group="more"), finding(Kind.SESSION_TIMEOUT, group="calmer"))
    play.now += 15 * SECOND
    play.dispatch.look(play.now)
    assert play.dispatch.ready(play.now) == []


def test_both_ways_out_of_a_receiver_hear_of_the_end_though_one_was_down() -> None:
    both = [{"name": "sre", "slack": SLACK, "pagerduty": {"routing_key": "r"}}]
    play = Play({**ONLY_SLACK, "receivers": both})
    play.happens(storm())
    play.run(MINUTE)
    play.broken = {"sre/pagerduty": SinkError("503")}
    play.happens(storm("resolved"))
    assert play.run(3 * MINUTE) == [("sre/slack", Phase.RESOLVED, Reason.ALL_RESOLVED)]
    play.broken = {}
    assert play.run(6 * MINUTE) == [("sre/pagerduty", Phase.RESOLVED, Reason.ALL_RESOLVED)]


def test_a_memory_of_another_format_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    path.write_text('{"format": 99}\n')
    with pytest.raises(MemoryFileError, match="move it away"):
        MemoryFile(path).load()


def test_every_alert_that_fires_is_pushed_to_an_alertmanager_before_it_forgets() -> None:
    manager = {"urls": ["http://127.0.0.1:1"], "resend_interval": "1m"}
    play = Play({"receivers": [{"name": "am", "alertmanager": manager}], "route": {"receiver": "am"}})
    play.happens(*(storm(group=f"g{number}") for number in range(150)))
    for _ in range(60):
        play.run(10 * SECOND)
    pushed: dict[str, list[int]] = {}
    for at, one in play.told:
        for alert in one.notification.alerts:
            pushed.setdefault(alert.labels["group"], []).append(at)
    assert len(pushed) == 150
    assert all(later - before < 4 * MINUTE for times in pushed.values() for before, later in pairwise(times))
    assert all(play.now - times[-1] < 4 * MINUTE for times in pushed.values())


def test_with_little_room_all_that_fires_is_told_again_in_turn() -> None:
    manager = {"urls": ["http://127.0.0.1:1"], "resend_interval": "1m", "per_minute": 30}
    play = Play({"receivers": [{"name": "am", "alertmanager": manager}], "route": {"receiver": "am"}})
    play.happens(*(storm(group=f"g{number}") for number in range(60)))
    play.run(20 * MINUTE)
    told = [alert.labels["group"] for _, one in play.told for alert in one.notification.alerts]
    counts = Counter(told)
    assert len(counts) == 60
    assert min(counts.values()) >= 15
    assert len(play.told) < 60 + 60


def test_one_alert_that_an_alertmanager_refuses_takes_no_other_with_it() -> None:
    manager = {"urls": ["http://127.0.0.1:1"], "resend_interval": "1m", "per_minute": 600}
    play = Play({"receivers": [{"name": "am", "alertmanager": manager}], "route": {"receiver": "am"}})
    play.happens(*(storm(group=f"g{number}") for number in range(40)))
    play.run(2 * MINUTE)
    play.refused = "g7"
    play.run(20 * MINUTE)
    last: dict[str, int] = {}
    for at, one in play.told:
        last |= {alert.labels["group"]: at for alert in one.notification.alerts if "group" in alert.labels}
    late = {group for group, at in last.items() if play.now - at > 4 * MINUTE}
    assert late == {"g7"}


def test_what_an_alertmanager_keeps_of_each_thread_stays_with_it() -> None:
    manager = {"urls": ["http://127.0.0.1:1"], "resend_interval": "1m"}
    play = Play({"receivers": [{"name": "am", "alertmanager": manager}], "route": {"receiver": "am"}})
    play.happens(storm(), storm(group="other"))
    play.run(20 * SECOND)
    play.now += 2 * MINUTE
    play.dispatch.look(play.now)
    (outgoing,) = play.dispatch.ready(play.now)
    names = [alert.fingerprint for alert in outgoing.notification.alerts]
    play.dispatch.arrived(outgoing, dict.fromkeys(names, "labels"), play.now)
    assert sorted(tuple(thread.state) for thread in play.memory.threads.values()) == sorted(
        (name,) for name in names
    )
    assert {len(thread.told) for thread in play.memory.threads.values()} == {1}


def test_a_receiver_that_never_answers_is_an_alert_to_the_others_until_it_does() -> None:
    play = Play(ONLY_SLACK)
    play.happens(storm())
    play.now += 15 * SECOND
    play.dispatch.look(play.now)
    (hanging,) = play.dispatch.ready(play.now)
    assert play.run(4 * MINUTE) == []
    assert play.run(3 * MINUTE) == [("pager/pagerduty", Phase.OPENED, Reason.FIRST)]
    assert "the receiver sre/slack hangs" in play.last.notification.alerts[0].finding.causes[0].why
    play.dispatch.arrived(hanging, {}, play.now)
    assert ("pager/pagerduty", Phase.RESOLVED, Reason.ALL_RESOLVED) in play.run(3 * MINUTE)


def test_the_alarm_of_a_receiver_that_was_taken_out_of_the_configuration_ends() -> None:
    play = Play(ONLY_SLACK, broken={"sre/slack": SinkError("invalid_auth", permanent=True)})
    play.happens(storm())
    assert play.run(2 * MINUTE) == [("pager/pagerduty", Phase.OPENED, Reason.FIRST)]
    play.section = {"receivers": BASE["receivers"][1:], "route": {"receiver": "pager"}}
    play.start()
    play.run(10 * MINUTE)
    alarms = [alert for alert in play.memory.engine.alerts.values() if "sink" in alert.finding.details]
    assert all(alert.resolved(play.now) for alert in alarms)
    told = [one.notification for _, one in play.told if "sink" in one.notification.alerts[0].finding.details]
    assert told[-1].phase is Phase.RESOLVED


def test_a_cluster_that_is_named_anew_ends_its_alerts_and_goes_on_with_them_under_its_name() -> None:
    play = Play()
    play.happens(storm(), finding(Kind.SESSION_TIMEOUT, group="other"))
    play.run(MINUTE)
    play.cluster = "payments"
    play.start()
    told = play.run(2 * MINUTE)
    labels = [one.notification.labels["cluster"] for _, one in play.told[-4:]]
    assert Counter(zip(labels, (phase for _, phase, _ in told), strict=True)) == {
        ("prod", Phase.RESOLVED): 2,
        ("payments", Phase.OPENED): 2,
    }
    play.happens(storm("resolved", cluster="payments"))
    assert ("sre/slack", Phase.RESOLVED, Reason.ALL_RESOLVED) in play.run(10 * MINUTE)
    assert all(alert.resolved(play.now) for alert in play.memory.engine.alerts.values())


def test_the_alarm_of_a_failing_receiver_is_raised_anew_and_ends_under_the_cluster_s_new_name() -> None:
    play = Play(ONLY_SLACK, broken={"sre/slack": SinkError("invalid_auth", permanent=True)})
    play.happens(storm())
    play.run(2 * MINUTE)
    play.cluster = "payments"
    play.start()
    play.run(20 * MINUTE)
    heard = [(one.notification.labels["cluster"], one.notification.phase) for one in play.heard(PAGER)]
    assert set(heard) == {("prod", Phase.OPENED), ("prod", Phase.RESOLVED), ("payments", Phase.OPENED)}
    play.broken = {}
    play.run(20 * MINUTE)
    assert play.heard(PAGER)[-1].notification.phase is Phase.RESOLVED


def test_an_incident_goes_on_when_its_receiver_gets_another_way_out() -> None:
    pager = {"name": "pager", "pagerduty": {"routing_key": "r"}}
    play = Play({"receivers": [pager], "route": {"receiver": "pager"}})
    play.happens(storm())
    play.run(MINUTE)
    thread = play.last.notification.thread
    play.section = {**play.section, "receivers": [{**pager, "console": {}}]}
    play.start()
    assert play.run(2 * MINUTE) == [("pager/console", Phase.OPENED, Reason.FIRST)]
    play.happens(storm("resolved"))
    play.run(2 * MINUTE)
    assert [one.notification.thread for one in play.heard(PAGER)] == [thread, thread]
    assert play.heard(PAGER)[-1].notification.phase is Phase.RESOLVED


def test_a_way_out_that_is_taken_away_is_counted_with_what_stays_open_there() -> None:
    play = Play()
    play.happens(storm(), storm(group="other"))
    play.run(MINUTE)
    play.section = {**play.section, "receivers": [{"name": "sre", "console": {}}]}
    play.section["route"] = {"receiver": "sre"}
    play.start()
    assert play.dispatch.orphaned == {"sre/slack": 2}
    play.start()
    assert play.dispatch.orphaned == {}


def test_a_notification_that_is_refused_for_good_holds_up_no_other_and_stays_an_alarm() -> None:
    hook = {"name": "hook", "webhook": {"url": "http://127.0.0.1:1"}}
    play = Play({"receivers": [hook], "route": {"receiver": "hook"}})
    play.refused = "poison"
    play.happens(storm(group="poison"))
    play.run(MINUTE)
    for number in range(10):
        play.happens(storm(group=f"g{number}"))
        play.run(MINUTE)
        assert play.last.notification.labels["group"] == f"g{number}"
    (alarm,) = [told for told in play.heard("hook/webhook") if "group" not in told.notification.labels]
    assert "413" in alarm.notification.alerts[0].finding.causes[0].why
    assert play.tried < 25
    play.happens(storm("resolved", group="poison"))
    play.run(12 * MINUTE)
    play.happens(storm(group="last"))
    play.run(3 * MINUTE)
    alarms = [
        one.notification.phase for one in play.heard("hook/webhook") if "group" not in one.notification.labels
    ]
    assert alarms == [Phase.OPENED, Phase.RESOLVED]


def test_a_flood_of_warnings_keeps_no_critical_alert_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rebalance_monitor.alerts.engine.MAX_ALERTS", 3)
    play = Play(BASE)
    play.happens(*(finding(Kind.SESSION_TIMEOUT, group=f"g{number}") for number in range(6)))
    assert play.memory.engine.refused == 3
    play.happens(storm(group="worst"))
    assert ("pager/pagerduty", Phase.OPENED, Reason.FIRST) in play.run(MINUTE)


def test_an_alertmanager_does_not_forget_the_watchdog_between_two_beats() -> None:
    manager = {"urls": ["http://127.0.0.1:9"]}
    dog = {"to": ["am"], "interval": "10m"}
    section = {"receivers": [{"name": "am", "alertmanager": manager}], "route": {"receiver": "am"}}
    play = Play({**section, "watchdog": dog})
    play.happens(storm())
    play.run(MINUTE)
    ends = {}
    for sink in sinks_of(Settings(alerts=Alerts(**play.section))).values():
        assert isinstance(sink, AlertmanagerSink)
        for one in play.heard("am/alertmanager"):
            for body in sink.pushed(one.notification, play.now):
                ends[body["labels"]["alertname"]] = datetime.fromisoformat(body["endsAt"])
        sink.close()
    now = datetime.fromtimestamp(play.now / 1_000, UTC)
    assert {name: (end - now).total_seconds() for name, end in ends.items()} == {
        "Watchdog": 2_400,
        "storm": 240,
    }
