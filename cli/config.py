"""`rebalance-monitor config check|show|reference`: what a configuration means, without running anything."""

from pathlib import Path

import click

from rebalance_monitor.cli.options import config_options, load_settings


@click.group()
def command() -> None:
    """Check, show and explain the configuration."""


@command.command()
@config_options
def check(config: Path | None, assignments: tuple[str, ...]) -> None:
    """Say what is wrong with the configuration (exit code 2), or that nothing is.

    Alert routes are checked as the job does: labels, receivers, time intervals, options of the receivers.
    Oddities, such as a receiver that nothing reaches, are told on stderr and are no error.
    """
    from rebalance_monitor.alerts.setup import checked
    from rebalance_monitor.alerts.ways import sinks_of
    from rebalance_monitor.config.errors import ConfigError

    settings = load_settings(config, assignments)
    found = checked(settings.alerts)
    if found.problems:
        raise ConfigError.of(found.problems)
    for sink in sinks_of(settings).values():
        sink.close()
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo("The configuration is valid.")


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
