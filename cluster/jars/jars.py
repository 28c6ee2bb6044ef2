"""Which jars Spark's Kafka source and a lab broker need, and where they lie.

The connector's version follows the running Spark: the exact one, else a version of the same minor
release that is known to resolve. Only what pyspark does not ship itself is fetched. Refuses Spark versions
it has no connector for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from rebalance_monitor.cluster.errors import DependencyError, DownloadError
from rebalance_monitor.cluster.jars.ivy import Coordinate, cache_folder, resolve, spark_jars_folder
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.paths import expanded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

# (Spark minor, Scala) -> connector versions that resolved in full, newest first.
VERIFIED_CONNECTORS: dict[tuple[str, str], tuple[str, ...]] = {
    ("4.0", "2.13"): ("4.0.0",),
    ("3.5", "2.13"): ("3.5.4", "3.5.1", "3.5.0"),
    ("3.5", "2.12"): ("3.5.7", "3.5.3", "3.5.1", "3.5.0"),
}
# Spark minor -> the Delta that is made for it.
DELTA_VERSIONS = {"3.5": "3.3.2", "4.0": "4.0.0"}
# What pyspark ships itself or the source does not use: 60 MB of Hadoop among it.
SHIPPED_WITH_SPARK = (
    "org.apache.hadoop",
    "org.scala-lang",
    "org.scala-lang.modules",
    "org.lz4",
    "org.xerial.snappy",
    "org.slf4j",
    "com.google.code.findbugs",
)
SHIPPED_NAMES = ("spark-tags",)
# The version of log4j's binding must equal the broker's log4j-core, or the coordinator's lines vanish.
LOG4J_VERSIONS = {"4.0": "2.24.3", "4.1": "2.25.1", "4.2": "2.25.1", "4.3": "2.25.3"}
LOG4J2_SINCE, RELOAD4J_SINCE = (4, 0), (3, 2)
RELOAD4J_BINDING = Coordinate("org.slf4j", "slf4j-reload4j", "1.7.36")
LOG4J12_BINDING = Coordinate("org.slf4j", "slf4j-log4j12", "1.7.30")


class JarChoice(Protocol):
    """The two settings that override what is fetched; the configuration model has both."""

    @property
    def jars(self) -> Sequence[Path | str]:
        """Files used as they are: nothing is fetched."""

    @property
    def packages(self) -> Sequence[str]:
        """Coordinates `organisation:artifact:version` fetched in place of the derived ones."""


def installed_spark() -> tuple[str, str]:
    """Give (Spark version, Scala binary version) of the installed Spark, e.g. ("4.0.5", "2.13")."""
    folder = spark_jars_folder()
    for jar in folder.glob("spark-core_*.jar"):
        if match := re.fullmatch(r"spark-core_([\d.]+)-(\d[\w.]*?)\.jar", jar.name):
            return match[2], match[1]
    raise DependencyError(
        f"No spark-core jar in {folder}.", "Install pyspark again, or set SPARK_HOME rightly."
    )


def connector_versions(spark_version: str, scala_version: str) -> list[str]:
    """Give the connector versions worth trying for this Spark, best first."""
    exact = re.split("[-+]", spark_version, maxsplit=1)[0]
    minor = ".".join(exact.split(".")[:2])
    return list(dict.fromkeys([exact, *VERIFIED_CONNECTORS.get((minor, scala_version), ())]))


def resolve_spark_kafka(
    spark_version: str,
    scala_version: str,
    settings: JarChoice | None = None,
    *,
    say: Callable[[str], None] | None = None,
) -> list[Path]:
    """Give the jar files of Spark's Kafka source.

    `scala_version` is binary ("2.13") or full ("2.13.16"). `settings.jars` are taken as they are,
    `settings.packages` fetched in place of the derived coordinates. Raises DependencyError (a file that is
    not there), DownloadError.
    """
    if settings is not None and settings.jars:
        return given_files(settings.jars)
    if settings is not None and settings.packages:
        return _packages([Coordinate.parse(text) for text in settings.packages], say)
    scala = ".".join(scala_version.split(".")[:2])
    folder = cache_folder() / "jars" / f"spark-kafka_{scala}-{spark_version}"
    return _first_that_resolves(connector_versions(spark_version, scala), scala, folder, say)


def delta_coordinate(spark_version: str, scala_version: str) -> Coordinate:
    """Give the Delta that is made for this Spark. Raises ConfigError where none is known."""
    minor, scala = (".".join(version.split(".")[:2]) for version in (spark_version, scala_version))
    if minor not in DELTA_VERSIONS:
        raise ConfigError(
            f"`tables.format` is delta, and no Delta is known for Spark {spark_version} (only for "
            f"{', '.join(DELTA_VERSIONS)}): set `tables.format: parquet`, or name one with Spark's Kafka "
            "connector in `packages:`."
        )
    return Coordinate("io.delta", f"delta-spark_{scala}", DELTA_VERSIONS[minor])


def resolve_delta(
    spark_version: str,
    scala_version: str,
    settings: JarChoice | None = None,
    *,
    say: Callable[[str], None] | None = None,
) -> list[Path]:
    """Give the jar files of Delta beyond those of `resolve_spark_kafka`: none where the settings name it.

    Raises ConfigError (`jars` without it, a Spark it is not known for), DownloadError.
    """
    if settings is not None and any(
        "delta-spark_" in str(given) for given in (*settings.jars, *settings.packages)
    ):
        return []
    if settings is not None and settings.jars:
        raise ConfigError(
            "`tables.format` is delta, and `jars:` names no delta-spark: add its jar and delta-storage's."
        )
    wanted = delta_coordinate(spark_version, scala_version)
    folder = cache_folder() / "jars" / f"{wanted.name}-{wanted.version}"
    return resolve([wanted], folder, excluded=(*SHIPPED_WITH_SPARK, "org.antlr"), say=say)


def _first_that_resolves(
    versions: Sequence[str], scala: str, folder: Path, say: Callable[[str], None] | None
) -> list[Path]:
    failures: list[DownloadError] = []
    for version in versions:
        wanted = [Coordinate("org.apache.spark", f"spark-sql-kafka-0-10_{scala}", version)]
        try:
            found = resolve(wanted, folder, excluded=SHIPPED_WITH_SPARK, say=say)
        except DownloadError as failure:
            failures.append(failure)
        else:
            return [jar for jar in found if not jar.name.startswith(SHIPPED_NAMES)]
    raise failures[0]


def given_files(files: Sequence[Path | str]) -> list[Path]:
    """Return the jars that the configuration names. Raises DependencyError for one that is not there."""
    paths = [expanded(file) for file in files]
    for path in paths:
        if not path.is_file():
            raise DependencyError(f"The jar {path} does not exist.", "Correct `jars:` in the configuration.")
    return paths


def _packages(wanted: Sequence[Coordinate], say: Callable[[str], None] | None) -> list[Path]:
    key = "+".join(f"{c.name}-{c.version}" for c in wanted)
    # What is named is wanted, as Hadoop's S3 client is, whose organisation Spark ships otherwise.
    named = {coordinate.org for coordinate in wanted}
    excluded = [org for org in SHIPPED_WITH_SPARK if org not in named]
    return resolve(wanted, cache_folder() / "jars" / key, excluded=excluded, say=say)


def broker_coordinates(version: str) -> list[Coordinate]:
    """Give the coordinates of a Kafka broker of this version, with the logging binding it needs."""
    number = release(version)
    broker = Coordinate("org.apache.kafka", "kafka_2.13", version)
    minor = version.rpartition(".")[0]
    if number >= LOG4J2_SINCE:
        log4j = LOG4J_VERSIONS.get(minor, LOG4J_VERSIONS[max(LOG4J_VERSIONS)])
        names = ("log4j-slf4j-impl", "log4j-core", "log4j-api")
        return [broker, *(Coordinate("org.apache.logging.log4j", name, log4j) for name in names)]
    return [broker, RELOAD4J_BINDING if number >= RELOAD4J_SINCE else LOG4J12_BINDING]


def release(version: str) -> tuple[int, ...]:
    """Give (3, 9, 1) for "3.9.1". Raises ConfigError for what is no release."""
    if not re.fullmatch(r"\d{1,6}\.\d{1,6}\.\d{1,6}", version, re.ASCII):
        raise ConfigError(f"{version!r} is not a Kafka version: write three numbers, such as 4.1.1.")
    return tuple(map(int, version.split(".")))


def resolve_kafka_broker(version: str, *, say: Callable[[str], None] | None = None) -> list[Path]:
    """Give the class path of a Kafka broker (and of its Java clients) of `version`, e.g. "4.1.1".

    About 40 MB and a minute the first time; afterwards no network. Raises DownloadError, DependencyError.
    """
    return resolve(broker_coordinates(version), cache_folder() / "jars" / f"kafka-{version}", say=say)
