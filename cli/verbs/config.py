"""`rebalance-monitor config check|show|reference`: what a configuration means, without running anything."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalance_monitor.cli.options import config_options, load_settings

if TYPE_CHECKING:
    from rebalance_monitor.config.model import Settings


@click.group()
def command() -> None:
    """Check, show and explain the configuration."""


@command.command()
@config_options
def check(config: Path | None, assignments: tuple[str, ...]) -> None:
    """Say what is wrong with the configuration (exit code 2), or that nothing is.

    All that the job refuses before it asks a broker: alert routes and options of receivers, kinds in
    `detection`, the page's token file, the form of the storage folder's URI. Oddities, such as a receiver
    that nothing reaches, are told on stderr and are no error.
    """
    from rebalance_monitor.alerts.setup.setup import checked
    from rebalance_monitor.config.errors import ConfigError

    settings = load_settings(config, assignments)
    problems = list(_problems(settings))
    if problems:
        raise ConfigError.of(problems)
    for warning in checked(settings.alerts).warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo("The configuration is valid.")


def _problems(settings: "Settings") -> Iterator[str]:
    """Yield what the job would refuse."""
    from rebalance_monitor.alerts.setup.receivers import sinks_of
    from rebalance_monitor.alerts.setup.setup import rules_of
    from rebalance_monitor.config.errors import ConfigError
    from rebalance_monitor.dashboard.web.http.access import access_of
    from rebalance_monitor.engine.settings import detection_settings
    from rebalance_monitor.engine.storage import storage_at

    def alerts() -> None:
        if settings.alerts.is_on or settings.alerts.route.receiver is not None:
            rules_of(settings.alerts)
        for sink in sinks_of(settings).values():
            sink.close()

    checks: tuple[Callable[[], object], ...] = (
        alerts,
        lambda: detection_settings(settings.detection),
        lambda: access_of(settings.web) if settings.web.enabled else None,
        lambda: storage_at(settings.storage.path, settings.storage.checkpoint),
    )
    for check in checks:
        try:
            check()
        except ConfigError as error:
            yield str(error)


@command.command()
@config_options
def show(config: Path | None, assignments: tuple[str, ...]) -> None:
    """Print the effective configuration as YAML; secrets are hidden."""
    import yaml

    settings = load_settings(config, assignments)
    click.echo(yaml.safe_dump(settings.redacted(), sort_keys=False, allow_unicode=True), nl=False)


@command.command()
def reference() -> None:
    """Print a commented file with every setting at its default."""
    from rebalance_monitor.config.reference import reference_yaml

    click.echo(reference_yaml(), nl=False)
