"""`config thresholds GROUP`: what holds for one group, and where each value was set.

The same rules as in the job: of `group_overrides`, `severity_overrides` and `teams` the first pattern that
matches wins. Nothing is asked of a broker: a value that the brokers tell at the start is marked.
"""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalance_monitor.cli.options import config_options, load_with_layers
from rebalance_monitor.cli.output import Form, output_option, write_rows

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
        _team(settings, layers, group),
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

    told = set(map(key_of, BROKER_VALUES))
    number, own = _override(section, group)
    by = _set_by(layers, "detection", "group_overrides", f"[{number}] ({own.get('pattern')})")
    names = [name for name in type(section).model_fields if not isinstance(getattr(section, name), tuple)]
    for name in [*names, *(own.keys() - {*names, "pattern"})]:
        if name in own:
            yield _row(name, own[name], by)
            continue
        origin = _set_by(layers, "detection", name)
        origin += "; the brokers' own wins" if origin == DEFAULT and name in told else ""
        value = getattr(section, name)
        yield _row(name, "not set" if value is None else value, origin)


def _override(section: "Detection", group: str) -> tuple[int, dict[str, object]]:
    """Return the number of the override that holds for the group, and what it sets."""
    for number, one in enumerate(section.group_overrides):
        if fnmatchcase(group, one.pattern):
            return number, one.model_dump(exclude_none=True)
    return -1, {}


def _severities(section: "Detection", layers: Layers, group: str) -> Iterator[Row]:
    seen: set[str] = set()
    for number, one in enumerate(section.severity_overrides):
        if one.kind not in seen and fnmatchcase(group, one.pattern):
            seen.add(one.kind)
            by = _set_by(layers, "detection", "severity_overrides", f"[{number}] ({one.pattern})")
            yield _row(f"severity of {one.kind}", one.severity, by)


def _patterns(section: "Detection", layers: Layers, group: str) -> Iterator[Row]:
    for name in ("always_on", "expected_pause"):
        pattern = next((one for one in getattr(section, name) if fnmatchcase(group, one)), None)
        entry = "" if pattern is None else f" ({pattern})"
        yield _row(name, "no" if pattern is None else "yes", _set_by(layers, "detection", name, entry))


def _team(settings: "Settings", layers: Layers, group: str) -> Row:
    found = next((one for one in settings.alerts.teams.items() if fnmatchcase(group, one[0])), None)
    pattern, team = found or (None, "none")
    return _row("team", team, _set_by(layers, "alerts", "teams", f" ({pattern})" if pattern else ""))


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
