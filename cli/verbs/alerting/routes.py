"""`alerts routes GROUP…`: the receivers of the alerts of a group, and their routes."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalance_monitor.cli.options import config_options, load_settings
from rebalance_monitor.cli.output import Form, output_option, write_rows
from rebalance_monitor.config.durations import written

if TYPE_CHECKING:
    from rebalance_monitor.alerts.dispatch.plan import Plan
    from rebalance_monitor.alerts.incidents.incidents import Policy
    from rebalance_monitor.alerts.routing.labels import Labels
    from rebalance_monitor.alerts.routing.routes import Route
    from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
    from rebalance_monitor.coordinator.settings import DetectionSettings

COLUMNS = ("group", "alert", "severity", "receiver", "why", "grouped by", "waits", "repeats", "now")


@click.command("routes")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...")
@click.option("--alert", "alertname", default=None, help="Only this kind of finding.")
@click.option(
    "--label", "labels", multiple=True, metavar="NAME=VALUE", help="Further labels: cause, topic, …"
)
@config_options
@output_option(Form.TABLE)
def routes(
    groups: tuple[str, ...],
    alertname: str | None,
    labels: tuple[str, ...],
    config: Path | None,
    assignments: tuple[str, ...],
    output: Form,
) -> None:
    """Say who is notified of the alerts of GROUPs, by which route, and what suppresses them now."""
    from rebalance_monitor.alerts.runtime.silences import SilenceFiles, Silences
    from rebalance_monitor.alerts.setup.receivers import plan_of
    from rebalance_monitor.engine.settings import detection_settings
    from rebalance_monitor.engine.storage import storage_at

    settings = load_settings(config, assignments)
    silences = Silences(SilenceFiles(storage_at(settings.storage.path).alerts))
    for why in silences.refresh():
        click.echo(why, err=True)
    if not settings.alerts.is_on:
        raise click.UsageError("no receivers are configured: nobody is notified (`alerts.receivers`)")
    plan = plan_of(settings, settings.cluster_name or "cluster", silences.holds)
    detection = detection_settings(settings.detection)
    extra = dict(_label(text) for text in labels)
    rows = [
        row
        for group in groups
        for kind in _kinds(alertname)
        for row in _rows(plan, group, kind, detection, extra)
    ]
    write_rows(rows, output, COLUMNS, optional=("why", "now", "waits", "repeats", "grouped by"))


def routed(plan: "Plan", group: str, detection: "DetectionSettings") -> Iterator[dict[str, object]]:
    """Yield a row for every kind of finding about a group and every route that its alerts take."""
    for kind in _kinds(None):
        yield from _rows(plan, group, kind, detection, {})


def _kinds(alertname: str | None) -> list["Kind"]:
    from rebalance_monitor.coordinator.findings.kind_table import KINDS
    from rebalance_monitor.coordinator.findings.kinds import Kind, Scope

    if alertname is not None and alertname not in list(Kind):
        raise click.BadParameter(f"{alertname!r} is no kind; the kinds are {', '.join(Kind)}")
    return [
        kind for kind, spec in KINDS.items() if spec.scope is Scope.GROUP and alertname in {None, kind.value}
    ]


def _rows(
    plan: "Plan", group: str, kind: "Kind", detection: "DetectionSettings", extra: "Labels"
) -> Iterator[dict[str, object]]:
    severity = _severity(group, kind, detection)
    if plan.policy.is_quiet(severity):
        yield _row(group, kind, severity, {"why": f"below `minimum_severity` {plan.policy.minimum_severity}"})
        return
    labels = _labels(plan, plan.policy, group, kind, severity) | extra
    for route in plan.rules.root.match(labels):
        yield _row(
            group,
            kind,
            severity,
            {
                "receiver": ", ".join(plan.rules.ways_of(route.receiver)) or f"{route.receiver} (nobody)",
                "why": _why(plan.rules.root, route),
                "grouped by": ", ".join(route.group_by),
                "waits": f"{written(route.group_wait)}, then {written(route.group_interval)}",
                "repeats": written(route.repeat_interval),
                "now": _fate(plan, route, labels),
            },
        )


def _row(group: str, kind: "Kind", severity: "Severity", more: dict[str, str]) -> dict[str, object]:
    return {"group": group, "alert": kind.value, "severity": severity.value, **more}


def _severity(group: str, kind: "Kind", detection: "DetectionSettings") -> "Severity":
    """Return the severity that a finding of this kind opens with, overrides and `always_on` included."""
    from rebalance_monitor.coordinator.findings.kind_table import KINDS
    from rebalance_monitor.coordinator.findings.kinds import Kind, Severity

    is_urgent = kind is Kind.GROUP_EMPTY and detection.is_always_on(group)
    usual = Severity.CRITICAL if is_urgent else KINDS[kind].severity
    return detection.severity_of(kind, group, usual)


def _labels(plan: "Plan", policy: "Policy", group: str, kind: "Kind", severity: "Severity") -> "Labels":
    from rebalance_monitor.alerts.routing.labels import labels_of
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.findings.kinds import Scope

    imagined = Finding(
        id="",
        kind=kind,
        scope=Scope.GROUP,
        severity=severity,
        evidence="read",
        cluster=plan.cluster,
        group=group,
        at=0,
        details={},
    )
    return labels_of(imagined, policy.teams)


def _why(root: "Route", route: "Route") -> str:
    """Return the matchers on the way down to this route."""
    way = [node for node in root.walk() if (route.path + "/").startswith(node.path + "/") and node.matchers]
    said = [", ".join(map(str, node.matchers)) for node in way]
    if not said:
        return "the top route" if route.path == root.path else "a route that matches everything"
    return " → ".join(said)


def _fate(plan: "Plan", route: "Route", labels: "Labels") -> str:
    import time

    from rebalance_monitor.alerts.routing.intervals import any_holds

    now, named = time.time_ns() // 1_000_000, plan.rules.intervals
    if plan.rules.silenced(labels, now):
        return "silenced"
    muted = [name for name in route.mute_time_intervals if any_holds(named[name], now)]
    if muted:
        return f"muted: {muted[0]}"
    active = route.active_time_intervals
    if active and not any(any_holds(named[name], now) for name in active):
        return f"not active: {', '.join(active)}"
    return "notifies"


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--label")
    return name, value
