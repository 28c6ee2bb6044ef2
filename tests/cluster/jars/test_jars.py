from dataclasses import dataclass
from pathlib import Path

import pytest

from rebalance_monitor.cluster.errors import DependencyError, DownloadError
from rebalance_monitor.cluster.jars import ivy, jars
from rebalance_monitor.cluster.jars.ivy import Coordinate, unresolved
from rebalance_monitor.config.errors import ConfigError


@dataclass(frozen=True)
class Choice:
    jars: tuple[Path, ...] = ()
    packages: tuple[str, ...] = ()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "rebalance-monitor"


def _never(*_: object, **__: object) -> None:
    pytest.fail("a process was started")


def test_the_exact_connector_is_tried_before_verified_ones_of_the_same_minor_release() -> None:
    assert jars.connector_versions("4.0.5", "2.13") == ["4.0.5", "4.0.0"]
    assert jars.connector_versions("3.5.9", "2.12")[:2] == ["3.5.9", "3.5.7"]
    assert jars.connector_versions("4.0.0-SNAPSHOT", "2.13") == ["4.0.0"]
    assert jars.connector_versions("9.9.9", "2.13") == ["9.9.9"]


def test_a_full_cache_needs_no_network_and_starts_no_process(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ivy.subprocess, "run", _never)
    for name in ("spark-kafka_2.13-4.0.5", "kafka-4.1.1"):
        folder = cache / "jars" / name
        folder.mkdir(parents=True)
        (folder / "one.jar").touch()
    assert [jar.name for jar in jars.resolve_spark_kafka("4.0.5", "2.13")] == ["one.jar"]
    assert [jar.name for jar in jars.resolve_kafka_broker("4.1.1")] == ["one.jar"]


def test_files_from_the_configuration_are_taken_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ivy.subprocess, "run", _never)
    mine = tmp_path / "mine.jar"
    mine.touch()
    assert jars.resolve_spark_kafka("4.0.5", "2.13", Choice(jars=(mine,))) == [mine]
    with pytest.raises(DependencyError, match=r"absent\.jar does not exist"):
        jars.resolve_spark_kafka("4.0.5", "2.13", Choice(jars=(tmp_path / "absent.jar",)))


@pytest.mark.parametrize("text", ["one:two", "a:b:c:d", "::", ""])
def test_a_malformed_coordinate_is_refused_by_name(text: str) -> None:
    with pytest.raises(DependencyError, match="organisation:artifact:version"):
        Coordinate.parse(text)


@pytest.mark.parametrize("text", ["4", "latest", "4.1", "4.1.1-rc1", ""])
def test_a_malformed_broker_version_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not a Kafka version"):
        jars.broker_coordinates(text)


@pytest.mark.parametrize(
    ("version", "binding"),
    [("2.8.2", "slf4j-log4j12"), ("3.9.1", "slf4j-reload4j"), ("4.1.1", "log4j-slf4j-impl")],
)
def test_a_broker_comes_with_the_logging_binding_of_its_time(version: str, binding: str) -> None:
    assert binding in {one.name for one in jars.broker_coordinates(version)}


def test_the_log4j_binding_has_the_version_of_log4j_itself() -> None:
    logging = [one for one in jars.broker_coordinates("4.1.1") if "logging" in one.org]
    assert len({one.version for one in logging}) == 1


def test_what_ivy_reports_as_missing_is_named() -> None:
    output = (
        ":: problems summary ::\n:::: WARNINGS\n\t\tmodule not found: org.x#thing;9.9\n"
        "\t\t:: org.x#thing;9.9: not found\n"
    )
    assert unresolved(output) == ["org.x:thing:9.9"]


def test_a_failed_download_names_the_artifact_and_leaves_nothing_behind(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = tmp_path / "java" / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text("#!/bin/sh\necho ':: org.x#thing;9.9: not found'\nexit 1\n")
    launcher.chmod(0o755)
    monkeypatch.setattr(ivy, "find_java", lambda: _Java(launcher))
    with pytest.raises(DownloadError, match=r"org\.x:thing:9\.9") as failed:
        ivy.resolve([Coordinate("org.x", "thing", "9.9")], cache / "jars" / "thing")
    assert "jars:" in failed.value.remedy
    assert list((cache / "jars").iterdir()) == []


@dataclass(frozen=True)
class _Java:
    executable: Path


def test_the_installed_spark_is_recognised_by_its_jars() -> None:
    spark, scala = jars.installed_spark()
    assert spark.count(".") == 2
    assert scala in {"2.12", "2.13"}
