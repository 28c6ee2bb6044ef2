"""`rebalance-monitor config check|show|thresholds|reference`: what a configuration means, without a job."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalance_monitor.cli.options import config_options, load_settings, load_valid
from rebalance_monitor.cli.verbs.setup.thresholds import thresholds

if TYPE_CHECKING:
    from rebalance_monitor.config.model import Settings


@click.group()
def command() -> None:
    """Check, show and explain the configuration."""


@command.command()
@config_options
@click.option("--with-java", is_flag=True, help="Ask Java's Kafka client, which Spark reads with, as well.")
def check(config: Path | None, assignments: tuple[str, ...], *, with_java: bool) -> None:
    """Say what is wrong with the configuration (exit code 2), or that nothing is.

    All that the job refuses before it asks a broker: how the brokers are reached, files of certificates,
    alert routes and options of receivers, kinds in `detection`, the page's token file, the form of the
    storage folder's URI, jars. A receiver that nothing reaches, and the like, is a
    warning on stderr and no error.
    """
    from rebalance_monitor.alerts.setup.setup import checked
    from rebalance_monitor.config.errors import ConfigError

    settings = load_valid(config, assignments)
    if with_java and (refused := list(_refused_by_java(settings))):
        raise ConfigError.of(refused)
    for warning in (*checked(settings.alerts).warnings, *_without_links(settings)):
        click.echo(f"warning: {warning}", err=True)
    click.echo("The configuration is valid.")


def _without_links(settings: "Settings") -> Iterator[str]:
    """Yield why messages lead nowhere."""
    from rebalance_monitor.alerts.setup.receivers import links_of

    if settings.alerts.is_on and links_of(settings).runbook is None:
        why = "`web.url` is not set" if settings.web.enabled else "`web.enabled` is false"
        yield f"alerts have no links to the page and its runbooks: {why}"


def _refused_by_java(settings: "Settings") -> Iterator[str]:
    """Yield what Java's Kafka client refuses. Raises DependencyError where its jars or Java are missing."""
    from rebalance_monitor.cluster.clients.java_client import java_refusal
    from rebalance_monitor.cluster.clients.properties import java_properties
    from rebalance_monitor.cluster.jars.jars import installed_spark, resolve_spark_kafka
    from rebalance_monitor.cluster.jars.shared_jvm import SHARED_JVM

    properties = java_properties(settings.kafka.client_properties())
    if why := java_refusal(properties, resolve_spark_kafka(*installed_spark(), settings), SHARED_JVM.options):
        yield f"Spark's Kafka client refuses `kafka:`: {why}"


@command.command()
@config_options
def show(config: Path | None, assignments: tuple[str, ...]) -> None:
    """Print the effective configuration as YAML; secrets are hidden."""
    import yaml

    settings = load_settings(config, assignments)
    click.echo(yaml.safe_dump(settings.redacted(), sort_keys=False, allow_unicode=True), nl=False)


command.add_command(thresholds)


@command.command()
def reference() -> None:
    """Print a commented file with every setting at its default."""
    from rebalance_monitor.config.reference import reference_yaml

    click.echo(reference_yaml(), nl=False)
