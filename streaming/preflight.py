"""All that a job refuses before it asks a broker: one path for `run`, `config check` and `doctor`.

Reports all problems of a configuration at once. Nothing is written, and no connection is opened.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.setup.receivers import sinks_of
from rebalance_monitor.alerts.setup.setup import rules_of
from rebalance_monitor.checkpoints.storage.places import is_elsewhere
from rebalance_monitor.checkpoints.storage.remote_place import require_no_secret, without_questions
from rebalance_monitor.cluster.clients.properties import java_properties, portable
from rebalance_monitor.cluster.clients.tls_files import require_usable
from rebalance_monitor.cluster.clients.trial import require_accepted
from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.jars.ivy import Coordinate
from rebalance_monitor.cluster.jars.jars import delta_coordinate, given_files, installed_spark
from rebalance_monitor.cluster.jars.shared_jvm import needs_hadoop
from rebalance_monitor.cluster.logins.held import has_librdkafka, require_keytab
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.kafka.logins import login_kind
from rebalance_monitor.dashboard.web.http.access import access_of
from rebalance_monitor.engine.driver.job import Options
from rebalance_monitor.engine.embedded.engine import EmbeddedKind
from rebalance_monitor.engine.settings import detection_settings
from rebalance_monitor.engine.storage import storage_at
from rebalance_monitor.streaming.source.source import require_reader
from rebalance_monitor.streaming.spark.session import (
    is_platform,
    require_driver,
    require_readable,
    shuffle_partitions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rebalance_monitor.config.load import Loaded
    from rebalance_monitor.config.model import Settings


def valid(found: Loaded) -> Settings:
    """Return the settings. Raises ConfigError with every problem: of the layers, and of what they mean."""
    problems = list(found.problems)
    if found.settings is not None:
        problems += problems_of(found.settings, found.wrong)
    if problems or found.settings is None:
        raise ConfigError.of(problems)
    return found.settings


def problems_of(settings: Settings, wrong: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield what the job would refuse, one sentence each; not of sections that are `wrong` already."""
    for check, sections in CHECKS.items():
        if wrong & sections:
            continue
        try:
            check(settings)
        except ConfigError as error:
            yield from error.problems
        except DependencyError as error:
            yield f"{error.what} {error.remedy}".strip()


def _reach(settings: Settings) -> None:
    """How the brokers are reached, as each of the three clients reads it."""
    given = settings.kafka.client_properties()
    require_usable(portable(given), given)
    require_keytab(given)
    if settings.source.reader == "spark":
        java_properties(given)
    require_accepted(given)


def _storage(settings: Settings) -> None:
    """Check the folder's name, as far as no JVM is needed for that: a platform's serves every URI."""
    path = settings.storage.path
    if needs_hadoop(path) or (is_platform(os.environ) and is_elsewhere(path)):
        require_no_secret(path)
        return
    root = storage_at(without_questions(path), settings.storage.checkpoint).root
    there = (
        next((one for one in (root, *root.parents) if one.exists()), None) if isinstance(root, Path) else None
    )
    if there is not None and not there.is_dir():
        raise ConfigError(f"`storage.path` leads to {there}, which is no folder")


def _routes(settings: Settings) -> None:
    if settings.alerts.is_on or settings.alerts.route.receiver is not None:
        rules_of(settings.alerts)


def _receivers(settings: Settings) -> None:
    for sink in sinks_of(settings).values():
        sink.close()


def _page(settings: Settings) -> None:
    if settings.web.enabled:
        access_of(settings.web)


def _engine(settings: Settings) -> None:
    """Check what the engine itself needs: Spark's settings and jars, or nothing that only Spark can do."""
    if settings.engine == "embedded":
        EmbeddedKind(settings, Options())
        return
    _spark(settings)
    _jars(settings)


def _spark(settings: Settings) -> None:
    require_driver(settings.spark.properties(), os.environ)
    shuffle_partitions(settings.spark.properties())
    require_readable(settings.spark.properties())
    if is_platform(os.environ):
        return
    if settings.source.reader == "python":
        require_reader(installed_spark()[0])
        _require_librdkafka(settings)
    if settings.outputs.parquet and settings.tables.format == "delta" and not settings.jars:
        delta_coordinate(*installed_spark())


def _require_librdkafka(settings: Settings) -> None:
    given = settings.kafka.client_properties()
    if not has_librdkafka(given):
        raise ConfigError(
            f"`source.reader: python` reads with librdkafka on every executor, and that does not log in by "
            f"{login_kind(given).value}: leave it at `spark`"
        )


def _jars(settings: Settings) -> None:
    given_files(settings.jars)
    for text in settings.packages:
        Coordinate.parse(text)


CHECKS: dict[Callable[[Settings], object], frozenset[str]] = {
    _reach: frozenset({"kafka", "source"}),
    lambda settings: detection_settings(settings.detection): frozenset({"detection"}),
    _routes: frozenset({"alerts"}),
    _receivers: frozenset({"alerts", "kafka"}),
    _page: frozenset({"web"}),
    _storage: frozenset({"storage"}),
    _engine: frozenset({"engine", "spark", "source", "outputs", "tables", "jars", "packages", "storage"}),
}
"""Check -> the sections of the configuration that it reads."""
