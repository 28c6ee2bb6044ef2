"""`config thresholds GROUP`: what holds for one group, and where each value was set.

The same rules as in the job. Of `groups` the first rule wins that matches and sets a key, of
`severity_overrides` the first that matches. Nothing is asked of a broker: a value that the brokers return at
the start is marked.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalance_monitor.cli.options import config_options, load_with_layers
from rebalance_monitor.cli.output import Form, output_option, write_rows
from rebalance_monitor.cli.sources import is_like

if TYPE_CHECKING:
    from rebalance_monitor.config.detection import Detection
    from rebalance_monitor.config.model import Settings

COLUMNS = ("setting", "value", "set by")
DEFAULT = "the default"
Layers = Mapping[str, dict[str, object]]
Row = dict[str, object]


@click.command("thresholds")
@click.argument("group")
@config_options
@output_option(Form.TABLE)
def thresholds(group: str, config: Path | None, assignments: tuple[str, ...], output: Form) -> None:
    """Say which thresholds, severities, team, routes and receivers hold for GROUP, and where each was set."""
    settings, layers = load_with_layers(config, assignments)
    rows = [
        *_thresholds(settings.detection, layers, group),
        *_severities(settings.detection, layers, group),
        *_patterns(settings.detection, layers, group),
        _team(settings.detection, layers, group),
        *_receivers(settings, group),
    ]
    write_rows(rows, output, COLUMNS)


def _row(setting: str, value: object, by: str) -> Row:
    return dict(zip(COLUMNS, (setting, value, by), strict=True))


def _set_by(layers: Layers, section: str, key: str, entry: str = "") -> str:
    from rebalance_monitor.config.load import set_where

    where = set_where([section, key], layers)
    return DEFAULT if where is None else f"{section}.{key}{entry} {where}"


def _thresholds(section: "Detection", layers: Layers, group: str) -> Iterator[Row]:
    from rebalance_monitor.engine.settings import BROKER_VALUES, key_of

    asked = set(map(key_of, BROKER_VALUES))
    own = _own(section, group)
    names = [name for name in type(section).model_fields if not isinstance(getattr(section, name), tuple)]
    for name in [*names, *(own.keys() - {*names, "team"})]:
        if name in own:
            value, number, pattern = own[name]
            yield _row(name, value, _set_by(layers, "detection", "groups", f"[{number}] ({pattern})"))
            continue
        origin = _set_by(layers, "detection", name)
        origin += "; the brokers' own wins" if origin == DEFAULT and name in asked else ""
        value = getattr(section, name)
        yield _row(name, "not set" if value is None else value, origin)


def _own(section: "Detection", group: str) -> dict[str, tuple[object, int, str]]:
    """Return each key that a rule sets for the group, with its value and the rule's number and pattern."""
    found: dict[str, tuple[object, int, str]] = {}
    for number, rule in enumerate(section.groups):
        if is_like(group, rule.pattern):
            for key, value in rule.model_dump(exclude={"pattern"}, exclude_none=True).items():
                found.setdefault(key, (value, number, rule.pattern))
    return found


def _severities(section: "Detection", layers: Layers, group: str) -> Iterator[Row]:
    seen: set[str] = set()
    for number, one in enumerate(section.severity_overrides):
        if one.kind not in seen and is_like(group, one.pattern):
            seen.add(one.kind)
            by = _set_by(layers, "detection", "severity_overrides", f"[{number}] ({one.pattern})")
            yield _row(f"severity of {one.kind}", one.severity, by)


def _patterns(section: "Detection", layers: Layers, group: str) -> Iterator[Row]:
    for name in ("always_on", "expected_pause"):
        pattern = next((one for one in getattr(section, name) if is_like(group, one)), None)
        entry = "" if pattern is None else f" ({pattern})"
        yield _row(name, "no" if pattern is None else "yes", _set_by(layers, "detection", name, entry))


def _team(section: "Detection", layers: Layers, group: str) -> Row:
    team, number, pattern = _own(section, group).get("team", ("none", -1, ""))
    entry = f"[{number}] ({pattern})" if pattern else ""
    return _row("team", team, _set_by(layers, "detection", "groups", entry))


def _receivers(settings: "Settings", group: str) -> Iterator[Row]:
    """Yield who is notified of each kind of finding, and by which route."""
    from rebalance_monitor.alerts.setup.receivers import plan_of
    from rebalance_monitor.cli.verbs.alerting.routes import routed
    from rebalance_monitor.engine.settings import detection_settings

    if not settings.alerts.is_on:
        yield _row("receivers", "none", DEFAULT)
        return
    plan = plan_of(settings, settings.cluster_name or "cluster", lambda _labels, _now: False)
    for row in routed(plan, group, detection_settings(settings.detection)):
        yield _row(f"alert {row['alert']}", row.get("receiver", "nobody"), str(row["why"]))
