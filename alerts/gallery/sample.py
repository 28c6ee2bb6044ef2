"""A test notification: it shows that a sink works, and says in every medium that it is a test."""

from __future__ import annotations

from rebalance_monitor.alerts.incidents.alert import NEVER, Alert, fingerprint
from rebalance_monitor.alerts.messages.blocks import Message, Paragraph, Tone, bold, code, faint, plain
from rebalance_monitor.alerts.messages.notification import Notification, Phase
from rebalance_monitor.coordinator.findings.finding import Finding, finding_id
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope, Severity

ALERTNAME = "rebalance_monitor_test"


def sample_message(cluster: str, sink: str, phase: Phase) -> Message:
    """Return the message of a test of `sink`."""
    over = phase is Phase.RESOLVED
    said = "the test is over" if over else "this is a test, nothing is wrong"
    return Message(
        Tone.RESOLVED if over else Tone.INFO,
        f"[TEST] rebalance monitor of {cluster}: {said}",
        (
            Paragraph((bold("TEST. "), plain("Alerts of the rebalance monitor reach "), code(sink))),
            Paragraph((faint("Sent by hand with `rebalance-monitor alerts test`; nobody has to act."),)),
        ),
    )


def sample_notification(
    cluster: str, sink: str, now_ms: int, phase: Phase = Phase.OPENED, state: dict[str, str] | None = None
) -> Notification:
    """Return the test of one sink; the same `now_ms` is the same thread, so that a test can be resolved."""
    finding = _finding(cluster, now_ms, phase)
    labels = {"alertname": ALERTNAME, "cluster": cluster, "severity": "info", "scope": "monitor"}
    ends_at = now_ms if phase is Phase.RESOLVED else NEVER
    thread = f"test/{cluster}/{sink}/{now_ms}"
    return Notification(
        key=f"{thread}/{phase.value}",
        thread=thread,
        receiver=sink,
        phase=phase,
        labels=labels,
        alerts=(Alert(fingerprint(finding), labels, now_ms, ends_at, finding),),
        message=sample_message(cluster, sink, phase),
        opened_at=now_ms,
        state=state or {},
        maybe_sent=False,
    )


def _finding(cluster: str, now_ms: int, phase: Phase) -> Finding:
    return Finding(
        id=finding_id(cluster, Kind.MONITOR_DEGRADED, "test", str(now_ms), phase=phase.value),
        kind=Kind.MONITOR_DEGRADED,
        scope=Scope.MONITOR,
        severity=Severity.INFO,
        evidence="read",
        cluster=cluster,
        at=now_ms,
        detected_at=now_ms,
        details={"cause": "test"},
    )
